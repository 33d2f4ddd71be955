"""Soft actor-critic laid out as in Stable-Baselines3, with a learned entropy coefficient, on Pendulum from a replay buffer."""
import copy
import gymnasium as gym
import numpy as np
import torch as th
from torch import nn
from torch.nn import functional as F
from typedbatch import ActBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

def create_mlp(*sizes):
    layers = [m for i, o in zip(sizes, sizes[1:]) for m in (nn.Linear(i, o), nn.ReLU())]
    return nn.Sequential(*layers[:-1])

class SAC:
    def __init__(self, obs_dim=3, action_dim=1, gamma=0.98, tau=0.02, lr=1e-3):
        self.gamma, self.tau, self.target_entropy = gamma, tau, -float(action_dim)
        self.actor = create_mlp(obs_dim, 64, 64, 2 * action_dim)
        self.critic = nn.ModuleList(create_mlp(obs_dim + action_dim, 64, 64, 1) for _ in range(2))
        self.critic_target = copy.deepcopy(self.critic).requires_grad_(False)
        self.log_ent_coef = th.zeros(1, requires_grad=True)
        self.actor_optimizer = th.optim.Adam(self.actor.parameters(), lr=lr)
        self.critic_optimizer = th.optim.Adam(self.critic.parameters(), lr=lr)
        self.ent_coef_optimizer = th.optim.Adam([self.log_ent_coef], lr=lr)

    def action_log_prob(self, obs):
        mean, log_std = self.actor(obs).chunk(2, dim=-1)
        dist = th.distributions.Normal(mean, log_std.clamp(-20, 2).exp())
        gaussian = dist.rsample()
        log_prob = dist.log_prob(gaussian) - 2 * (np.log(2) - gaussian - F.softplus(-2 * gaussian))
        return th.tanh(gaussian), log_prob.sum(-1, keepdim=True)

    def q_values(self, critic, obs, actions):
        return th.cat([q(th.cat([obs, actions], dim=1)) for q in critic], dim=1)

    def train(self, replay_data):
        rewards, terminal = replay_data.rew[:, None], replay_data.terminated[:, None].float()  # a time limit does not end the task
        actions_pi, log_prob = self.action_log_prob(replay_data.obs)
        ent_coef = self.log_ent_coef.detach().exp()
        ent_coef_loss = -(self.log_ent_coef * (log_prob + self.target_entropy).detach()).mean()
        self.ent_coef_optimizer.zero_grad()
        ent_coef_loss.backward()
        self.ent_coef_optimizer.step()

        with th.no_grad():
            next_actions, next_log_prob = self.action_log_prob(replay_data.obs_next)
            next_q = self.q_values(self.critic_target, replay_data.obs_next, next_actions).min(dim=1, keepdim=True)[0]
            target_q = rewards + (1 - terminal) * self.gamma * (next_q - ent_coef * next_log_prob)
        critic_loss = 0.5 * sum(F.mse_loss(q[:, None], target_q) for q in self.q_values(self.critic, replay_data.obs, replay_data.act).unbind(1))
        self.critic_optimizer.zero_grad()
        critic_loss.backward()
        self.critic_optimizer.step()

        min_qf_pi = self.q_values(self.critic, replay_data.obs, actions_pi).min(dim=1, keepdim=True)[0]
        actor_loss = (ent_coef * log_prob - min_qf_pi).mean()
        self.actor_optimizer.zero_grad()
        actor_loss.backward()
        self.actor_optimizer.step()
        with th.no_grad():
            for param, target_param in zip(self.critic.parameters(), self.critic_target.parameters()):
                target_param.mul_(1 - self.tau).add_(param, alpha=self.tau)
        return {"actor": actor_loss.item(), "critic": critic_loss.item(), "ent": ent_coef_loss.item()}

    def predict(self, batch):
        return ActBatch(act=self.action_log_prob(th.as_tensor(batch.obs, dtype=th.float32))[0].numpy())

def setup(seed: int = 0):
    th.manual_seed(seed)
    envs = gym.vector.SyncVectorEnv([lambda: gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), np.float32(-1), np.float32(1))] * 2)
    model, buffer = SAC(), VectorReplayBuffer[RolloutBatch](4000, 2, random_seed=seed)
    collector = Collector(envs, model.predict)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=300, random=True)

    def draw():
        collector.collect(buffer, n_step=8)
        return (buffer.sample(64, into=RolloutBatch[th.Tensor], dtype=th.float32)[0],)

    return model.train, draw
