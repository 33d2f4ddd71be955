"""SAC for one-dimensional control, an agent class whose update fills the batch step by step."""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from typedbatch import Batch, RolloutBatch
from typedbatch.buffers import ReplayBuffer


def mlp(n_in: int, n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(n_in, 32), nn.ReLU(), nn.Linear(32, n_out))


class SAC:
    def __init__(self, obs_dim: int, act_dim: int, gamma: float = 0.99, tau: float = 0.01) -> None:
        self.actor = mlp(obs_dim, 2 * act_dim)
        self.q1, self.q2 = mlp(obs_dim + act_dim, 1), mlp(obs_dim + act_dim, 1)
        self.q1_old, self.q2_old = copy.deepcopy(self.q1), copy.deepcopy(self.q2)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.target_entropy = -float(act_dim)
        self.actor_optim = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_optim = torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()], lr=1e-3)
        self.alpha_optim = torch.optim.Adam([self.log_alpha], lr=1e-3)
        self.gamma, self.tau = gamma, tau

    def forward(self, obs: Tensor) -> Batch:
        mean, log_std = self.actor(obs).chunk(2, dim=-1)
        dist = Normal(mean, log_std.clamp(-5, 2).exp())
        raw = dist.rsample()
        act = torch.tanh(raw)
        log_prob = (dist.log_prob(raw) - torch.log(1 - act.pow(2) + 1e-6)).sum(-1)
        return Batch(act=act, log_prob=log_prob, mean=torch.tanh(mean))

    def q(self, net: nn.Module, obs: Tensor, act: Tensor) -> Tensor:
        value: Tensor = net(torch.cat([obs, act], dim=-1))
        return value.squeeze(-1)

    def learn(self, rollout: RolloutBatch) -> dict[str, float]:
        batch = Batch(
            obs=torch.as_tensor(rollout.obs),
            act=torch.as_tensor(rollout.act),
            #! old-name: act=torch.as_tensor(rollout.action),
            rew=torch.as_tensor(rollout.rew).float(),
            obs_next=torch.as_tensor(rollout.obs_next),
            terminated=torch.as_tensor(rollout.terminated).float(),
        )
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            nxt = self.forward(batch.obs_next)
            #! batch-for-array: nxt = self.forward(batch)
            q_next = torch.min(
                self.q(self.q1_old, batch.obs_next, nxt["act"]), self.q(self.q2_old, batch.obs_next, nxt["act"])
            )
            batch.target = batch.rew + self.gamma * (1 - batch.terminated) * (q_next - alpha * nxt["log_prob"])
            #! old-name: batch.target = batch.rew + self.gamma * (1 - batch.done) * (q_next - alpha * nxt["log_prob"])

        batch.q1 = self.q(self.q1, batch.obs, batch.act)
        batch.q2 = self.q(self.q2, batch.obs, batch.act)
        critic_loss = (batch.q1 - batch.target).pow(2).mean() + (batch.q2 - batch.target).pow(2).mean()
        #! misspelt-read: critic_loss = (batch.q1 - batch.targets).pow(2).mean() + (batch.q2 - batch.target).pow(2).mean()
        self.critic_optim.zero_grad()
        critic_loss.backward()
        self.critic_optim.step()

        out = self.forward(batch.obs)
        batch.act_pi, batch.logp_pi = out["act"], out["log_prob"]
        q_pi = torch.min(self.q(self.q1, batch.obs, batch.act_pi), self.q(self.q2, batch.obs, batch.act_pi))
        actor_loss = (alpha * batch.logp_pi - q_pi).mean()
        #! misspelt-read: actor_loss = (alpha * batch.log_pi - q_pi).mean()
        self.actor_optim.zero_grad()
        actor_loss.backward()
        self.actor_optim.step()

        alpha_loss = -(self.log_alpha * (batch.logp_pi.detach() + self.target_entropy)).mean()
        #! later-stage: alpha_loss = -(self.log_alpha * (batch.log_prob.detach() + self.target_entropy)).mean()
        self.alpha_optim.zero_grad()
        alpha_loss.backward()
        self.alpha_optim.step()
        self._sync()
        return {"critic": critic_loss.item(), "actor": actor_loss.item(), "alpha": alpha.item()}

    def _sync(self) -> None:
        for new, old in ((self.q1, self.q1_old), (self.q2, self.q2_old)):
            for p, p_old in zip(new.parameters(), old.parameters(), strict=True):
                p_old.data.lerp_(p.data, self.tau)


def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    agent = SAC(obs_dim=2, act_dim=1)
    buffer = ReplayBuffer[RolloutBatch](500, random_seed=0)
    obs = rng.normal(size=2).astype(np.float32)
    losses: dict[str, float] = {}
    for step in range(120):
        with torch.no_grad():
            act = agent.forward(torch.as_tensor(obs))["act"].numpy()
        obs_next = (0.9 * obs + 0.1 * act + 0.01 * rng.normal(size=2)).astype(np.float32)
        transition = RolloutBatch(
            obs=obs,
            obs_next=obs_next,
            act=act,
            rew=np.asarray(-np.square(obs_next).sum()),
            terminated=np.asarray(False),
            truncated=np.asarray(step % 20 == 19),
            info=Batch(),
        )
        buffer.add(transition)
        obs = obs_next
        if step >= 32:
            sampled, _ = buffer.sample(16)
            losses = agent.learn(sampled)
            #! batch-for-array: losses = agent.learn(sampled.obs)
    print({name: round(value, 4) for name, value in losses.items()})


if __name__ == "__main__":
    main()
