"""CleanRL-style SAC that stores the final observation of an episode as obs_next, not the one after the reset."""
# wrong: """obs_next at a time limit is the first observation of the next episode, since the autoreset is not undone."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from typedbatch import Batch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer

LOG_STD_MAX, LOG_STD_MIN = 2, -5


class SoftQNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(4, 64), nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, x, a):
        x = F.relu(self.fc1(torch.cat([x, a], 1)))
        return self.fc3(F.relu(self.fc2(x)))


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(3, 64), nn.Linear(64, 64)
        self.fc_mean, self.fc_logstd = nn.Linear(64, 1), nn.Linear(64, 1)
        self.action_scale = 2.0

    def get_action(self, x):
        x = F.relu(self.fc2(F.relu(self.fc1(x))))
        mean, log_std = self.fc_mean(x), torch.tanh(self.fc_logstd(x))
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std + 1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        x_t = normal.rsample()
        y_t = torch.tanh(x_t)
        log_prob = normal.log_prob(x_t) - torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6)
        return y_t * self.action_scale, log_prob.sum(1, keepdim=True)


def setup(seed: int = 0, num_envs: int = 4, gamma: float = 0.99, tau: float = 0.005, batch_size: int = 128):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs = gym.make_vec("Pendulum-v1", num_envs, max_episode_steps=25,
                        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP})
    actor, qf1, qf2, qf1_target, qf2_target = Actor(), SoftQNetwork(), SoftQNetwork(), SoftQNetwork(), SoftQNetwork()
    qf1_target.load_state_dict(qf1.state_dict())
    qf2_target.load_state_dict(qf2.state_dict())
    q_optimizer = torch.optim.Adam(list(qf1.parameters()) + list(qf2.parameters()), lr=1e-3)
    actor_optimizer = torch.optim.Adam(list(actor.parameters()), lr=3e-4)
    target_entropy = -1.0
    log_alpha = torch.zeros(1, requires_grad=True)
    a_optimizer = torch.optim.Adam([log_alpha], lr=1e-3)

    rb = VectorReplayBuffer[RolloutBatch](20_000, num_envs, random_seed=seed)
    obs, _ = envs.reset(seed=seed)

    def step_envs(n):
        nonlocal obs
        for _ in range(n):
            with torch.no_grad():
                actions = actor.get_action(torch.as_tensor(obs))[0].numpy()
            next_obs, rewards, terminations, truncations, infos = envs.step(actions)
            real_next_obs = next_obs.copy()
            for idx in np.flatnonzero(terminations | truncations):
            # wrong: without this line
                real_next_obs[idx] = infos["final_obs"][idx]
                # wrong: without this line
            rb.add(RolloutBatch(obs=obs, act=actions, rew=rewards.astype(np.float32), obs_next=real_next_obs,
                                terminated=terminations, truncated=truncations, info=Batch()))
            obs = next_obs

    step_envs(200)

    def draw():
        step_envs(4)
        return (rb.sample(batch_size, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    def update(data):
        alpha = log_alpha.exp().item()
        with torch.no_grad():
            next_actions, next_log_pi = actor.get_action(data.obs_next)
            min_qf_next = torch.min(qf1_target(data.obs_next, next_actions), qf2_target(data.obs_next, next_actions))
            soft_value = (min_qf_next - alpha * next_log_pi).view(-1)
            next_q_value = data.rew + (~data.terminated) * gamma * soft_value
        qf1_a, qf2_a = qf1(data.obs, data.act).view(-1), qf2(data.obs, data.act).view(-1)
        qf_loss = F.mse_loss(qf1_a, next_q_value) + F.mse_loss(qf2_a, next_q_value)
        q_optimizer.zero_grad()
        qf_loss.backward()
        q_optimizer.step()

        pi, log_pi = actor.get_action(data.obs)
        actor_loss = (alpha * log_pi - torch.min(qf1(data.obs, pi), qf2(data.obs, pi))).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()

        alpha_loss = (-log_alpha.exp() * (log_pi.detach() + target_entropy)).mean()
        a_optimizer.zero_grad()
        alpha_loss.backward()
        a_optimizer.step()

        for net, net_target in ((qf1, qf1_target), (qf2, qf2_target)):
            for param, target_param in zip(net.parameters(), net_target.parameters()):
                target_param.data.copy_(tau * param.data + (1 - tau) * target_param.data)
        return {"qf": qf_loss.item(), "actor": actor_loss.item(), "alpha": alpha}

    return update, draw
