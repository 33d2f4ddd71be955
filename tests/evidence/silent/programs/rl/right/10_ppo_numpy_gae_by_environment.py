"""PPO on Pendulum with scaled rewards, clipped values, and advantages that numpy computes as (E, T) and flattens again."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Independent, Normal

from typedbatch import ActBatch, LogpOldBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector

ENVS, STEPS, GAMMA, LAMBDA, CLIP = 4, 50, 0.95, 0.95, 0.2


class Choice(ActBatch[Tensor]):
    logp: Tensor


class Rollout(RolloutBatch):
    """Arrays, with the log-probability of each action."""

    logp: np.ndarray


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    return extend(rollout, Rollout, logp=choice.logp.numpy())


class RewardScale:
    """Divides by the running standard deviation of discounted sums; does not subtract the mean, which would change the task."""

    def __init__(self) -> None:
        self.sums, self.count, self.mean, self.m2 = np.zeros(ENVS), 0, 0.0, 0.0

    def __call__(self, rew: np.ndarray, ends: np.ndarray) -> np.ndarray:
        for t in range(rew.shape[1]):
            self.sums = self.sums * GAMMA + rew[:, t]
            for value in self.sums:
                self.count += 1
                delta = value - self.mean
                self.mean += delta / self.count
                self.m2 += delta * (value - self.mean)
            self.sums[ends[:, t]] = 0.0
        return rew / np.sqrt(self.m2 / self.count + 1e-8)


class PPO:
    def __init__(self) -> None:
        self.mean = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.zeros(1))
        self.critic = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.params = [*self.mean.parameters(), self.log_std, *self.critic.parameters()]
        self.optim = torch.optim.Adam(self.params, 1e-3)
        self.scale = RewardScale()

    def dist(self, obs: Tensor) -> Independent:
        mean = self.mean(obs)
        return Independent(Normal(mean, self.log_std.exp().expand_as(mean)), 1)

    def act(self, batch: ObsBatch) -> Choice:
        dist = self.dist(torch.as_tensor(batch.obs))
        act = dist.sample()
        return Choice(act=act, logp=dist.log_prob(act))

    @torch.no_grad()
    def value(self, obs: np.ndarray) -> np.ndarray:
        return self.critic(torch.from_numpy(obs)).squeeze(-1).numpy()

    def process(self, rollout: Rollout) -> LogpOldBatch[Tensor]:
        """The rows are grouped by environment, so they are reshaped to (E, T) without a transposition."""
        envs = [array.reshape(ENVS, -1) for array in (rollout.rew, rollout.terminated, rollout.truncated)]
        rew, terminated, truncated = envs
        value, value_next = self.value(rollout.obs).reshape(ENVS, -1), self.value(rollout.obs_next).reshape(ENVS, -1)
        rew = self.scale(rew, terminated | truncated)
        delta = rew + GAMMA * ~terminated * value_next - value
        adv, running = np.zeros_like(delta), np.zeros(ENVS)
        for t in reversed(range(delta.shape[1])):
            adv[:, t] = running = delta[:, t] + GAMMA * LAMBDA * ~(terminated | truncated)[:, t] * running
        fields = {"v_s": value.reshape(-1), "returns": (adv + value).reshape(-1), "adv": adv.reshape(-1)}
        return convert(extend(rollout, LogpOldBatch, logp_old=rollout.logp, **fields), LogpOldBatch[Tensor], dtype=torch.float32)

    def update(self, rollout: Rollout) -> dict[str, float]:
        batch = self.process(rollout)
        for _ in range(8):
            for part in batch.split(50, rng=torch.default_generator):
                dist = self.dist(part.obs)
                ratio = (dist.log_prob(part.act) - part.logp_old).exp()
                adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8)
                policy = -torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
                value = self.critic(part.obs).squeeze(-1)
                clipped = part.v_s + (value - part.v_s).clamp(-CLIP, CLIP)
                value_loss = torch.max((value - part.returns).pow(2), (clipped - part.returns).pow(2)).mean()
                self.optim.zero_grad()
                (policy + 0.5 * value_loss).backward()
                nn.utils.clip_grad_norm_(self.params, 0.5)
                self.optim.step()
        return {"policy": policy.item(), "value": value_loss.item(), "rew": float(rollout.rew.mean())}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs = gym.make_vec(
        "Pendulum-v1", ENVS, vectorization_mode="sync", wrappers=[gym.wrappers.ClipAction],
        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP},  # no row of a reset is left out
    )
    ppo = PPO()
    collector = Collector(envs, ppo.act, record)
    collector.reset(seed=seed)
    return ppo.update, lambda: (collector.rollout(ENVS * STEPS),)
