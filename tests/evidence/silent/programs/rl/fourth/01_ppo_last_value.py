"""PPO with GAE over (time, env) rollouts; the rollout's end bootstraps from the value of the observation after it."""
# wrong: """The rollout's end bootstraps from the value of its last observation, not of the one after it."""

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import BatchRecord


class Steps(BatchRecord):
    """A rollout, (T, E) rows."""

    obs: Tensor
    act: Tensor
    rew: Tensor
    terminated: Tensor
    truncated: Tensor
    obs_next: Tensor
    logp_old: Tensor


class Drift:
    """Keep a drifting point inside [-2, 2] with three thrusts; 60 steps at most."""

    def __init__(self, num: int, seed: int) -> None:
        self.rng, self.num = np.random.default_rng(seed), num
        self.x, self.v, self.t = np.zeros(num), np.zeros(num), np.zeros(num, int)
        self.reset(np.ones(num, bool))

    def reset(self, which: np.ndarray) -> None:
        count = int(which.sum())
        self.x[which] = self.rng.uniform(-1, 1, count)
        self.v[which] = self.rng.uniform(-0.1, 0.1, count)
        self.t[which] = 0

    def observe(self) -> Tensor:
        return torch.tensor(np.stack([self.x, self.v * 5], -1), dtype=torch.float32)

    def step(self, act: np.ndarray):
        self.v += 0.03 * (act - 1) + self.rng.normal(0, 0.02, self.num) + 0.01 * self.x
        self.x += self.v
        self.t += 1
        terminated, truncated = np.abs(self.x) > 2, self.t >= 60
        truncated &= ~terminated
        rew = 1 - 0.25 * self.x**2
        after = self.observe()
        self.reset(terminated | truncated)
        return after, torch.tensor(rew, dtype=torch.float32), torch.tensor(terminated), torch.tensor(truncated)


class PPO:
    gamma, lam, clip, epochs, minibatch = 0.99, 0.95, 0.2, 4, 64

    def __init__(self) -> None:
        self.actor = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 3))
        self.critic = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1), nn.Flatten(-2))
        self.params = [*self.actor.parameters(), *self.critic.parameters()]
        self.optim = torch.optim.Adam(self.params, 3e-4)

    @torch.no_grad()
    def advantages(self, batch: Steps) -> tuple[Tensor, Tensor]:
        values = self.critic(batch.obs)
        last_values = self.critic(batch.obs_next[-1:])
        # wrong: last_values = self.critic(batch.obs[-1:])
        next_values = torch.cat([values[1:], last_values])
        next_values = torch.where(batch.truncated, self.critic(batch.obs_next), next_values)
        delta = batch.rew + self.gamma * ~batch.terminated * next_values - values
        going = ~(batch.terminated | batch.truncated)
        adv, gae = torch.zeros_like(delta), torch.zeros_like(delta[0])
        for t in reversed(range(len(delta))):
            gae = delta[t] + self.gamma * self.lam * going[t] * gae
            adv[t] = gae
        return adv, adv + values

    def update(self, batch: Steps) -> dict[str, float]:
        adv, returns = (part.flatten() for part in self.advantages(batch))
        obs, act, logp_old = batch.obs.flatten(0, 1), batch.act.flatten(), batch.logp_old.flatten()
        sums = {"policy": 0.0, "value": 0.0}
        for _ in range(self.epochs):
            for idx in torch.randperm(len(adv)).split(self.minibatch):
                dist = Categorical(logits=self.actor(obs[idx]))
                ratio = (dist.log_prob(act[idx]) - logp_old[idx]).exp()
                a = (adv[idx] - adv[idx].mean()) / (adv[idx].std() + 1e-8)
                policy = -torch.min(ratio * a, ratio.clamp(1 - self.clip, 1 + self.clip) * a).mean()
                value = (self.critic(obs[idx]) - returns[idx]).pow(2).mean()
                self.optim.zero_grad()
                (policy + 0.5 * value - 0.01 * dist.entropy().mean()).backward()
                nn.utils.clip_grad_norm_(self.params, 0.5)
                self.optim.step()
                sums["policy"] += policy.item()
                sums["value"] += value.item()
        return sums


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    ppo, env = PPO(), Drift(8, seed)

    @torch.no_grad()
    def draw() -> tuple[Steps]:
        rows = []
        for _ in range(32):
            obs = env.observe()
            dist = Categorical(logits=ppo.actor(obs))
            act = dist.sample()
            after, rew, terminated, truncated = env.step(act.numpy())
            rows.append((obs, act, rew, terminated, truncated, after, dist.log_prob(act)))
        names = ("obs", "act", "rew", "terminated", "truncated", "obs_next", "logp_old")
        return (Steps(**{name: torch.stack(column) for name, column in zip(names, zip(*rows))}),)

    return ppo.update, draw
