"""CleanRL-like SAC on Pendulum with autotuned alpha and delayed actor updates."""
# wrong: """The target entropy is subtracted from the log-probability instead of added: alpha moves to the wrong side."""
# A sign lost between entropy and log-probability; SAC, arXiv:1812.05905, equation 18 (no single source).
from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn, optim

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

torch.set_num_threads(1)
LOG_STD_MAX, LOG_STD_MIN = 2, -5


class SoftQNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(4, 64), nn.Linear(64, 64), nn.Linear(64, 1)

    def forward(self, x: Tensor, a: Tensor) -> Tensor:
        x = F.relu(self.fc1(torch.cat([x, a], 1)))
        return self.fc3(F.relu(self.fc2(x)))


class Actor(nn.Module):
    action_scale: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.fc1, self.fc_mean, self.fc_logstd = nn.Linear(3, 64), nn.Linear(64, 1), nn.Linear(64, 1)
        self.register_buffer("action_scale", torch.tensor([2.0]))

    def get_action(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = F.relu(self.fc1(x))
        mean, log_std = self.fc_mean(x), torch.tanh(self.fc_logstd(x))
        log_std = LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (log_std + 1)
        normal = torch.distributions.Normal(mean, log_std.exp())
        x_t = normal.rsample()
        y_t = torch.tanh(x_t)
        log_prob = normal.log_prob(x_t) - torch.log(self.action_scale * (1 - y_t.pow(2)) + 1e-6)
        return y_t * self.action_scale, log_prob.sum(1, keepdim=True)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    gamma, tau, policy_frequency = 0.99, 0.005, 2
    actor, qf1, qf2, qf1_target, qf2_target = Actor(), SoftQNetwork(), SoftQNetwork(), SoftQNetwork(), SoftQNetwork()
    qf1_target.load_state_dict(qf1.state_dict())
    qf2_target.load_state_dict(qf2.state_dict())
    q_optimizer = optim.Adam(list(qf1.parameters()) + list(qf2.parameters()), lr=1e-3)
    actor_optimizer = optim.Adam(list(actor.parameters()), lr=3e-4)
    target_entropy = -float(np.prod((1,)))
    log_alpha = torch.zeros(1, requires_grad=True)
    a_optimizer = optim.Adam([log_alpha], lr=1e-3)
    progress = {"step": 0}

    def policy(batch: ObsBatch) -> ActBatch[Tensor]:
        return ActBatch[Tensor](act=actor.get_action(torch.as_tensor(batch.obs))[0])

    buffer = VectorReplayBuffer[RolloutBatch](2_000, 1, random_seed=seed)
    collector = Collector(gym.make_vec("Pendulum-v1", 1, vectorization_mode="sync"), policy)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=256, random=True)

    def update(data: RolloutBatch[Tensor]) -> dict[str, float]:
        alpha = log_alpha.exp().item()
        with torch.no_grad():
            next_actions, next_log_pi = actor.get_action(data.obs_next)
            qf_next = torch.min(qf1_target(data.obs_next, next_actions), qf2_target(data.obs_next, next_actions))
            qf_next = qf_next - alpha * next_log_pi
            next_q_value = data.rew + (1 - data.terminated.float()) * gamma * qf_next.view(-1)
        qf1_loss = F.mse_loss(qf1(data.obs, data.act).view(-1), next_q_value)
        qf2_loss = F.mse_loss(qf2(data.obs, data.act).view(-1), next_q_value)
        q_optimizer.zero_grad()
        (qf1_loss + qf2_loss).backward()
        q_optimizer.step()

        progress["step"] += 1
        if progress["step"] % policy_frequency == 0:
            for _ in range(policy_frequency):  # compensate for the delay
                pi, log_pi = actor.get_action(data.obs)
                min_qf_pi = torch.min(qf1(data.obs, pi), qf2(data.obs, pi))
                actor_loss = ((log_alpha.exp().item() * log_pi) - min_qf_pi).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()
                with torch.no_grad():
                    _, log_pi = actor.get_action(data.obs)
                alpha_loss = (-log_alpha.exp() * (log_pi + target_entropy)).mean()
                # wrong: alpha_loss = (-log_alpha.exp() * (log_pi - target_entropy)).mean()
                a_optimizer.zero_grad()
                alpha_loss.backward()
                a_optimizer.step()
        for net, slow_net in (qf1, qf1_target), (qf2, qf2_target):
            for param, target_param in zip(net.parameters(), slow_net.parameters(), strict=True):
                target_param.data.copy_(tau * param.data + (1 - tau) * target_param.data)
        return {"qf1": qf1_loss.item(), "qf2": qf2_loss.item(), "alpha": log_alpha.exp().item()}

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=1)
        return (buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    return update, draw
