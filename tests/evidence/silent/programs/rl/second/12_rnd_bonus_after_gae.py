"""PPO with random network distillation (RND) on a grid with one rewarded corner."""
# wrong: """The curiosity bonus is added to the rewards after the advantages were computed, so it has no effect on the policy."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, LogpOldBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector, add_gae

SIZE, BETA = 8, 0.5


class Corner(gym.Env):
    """From one corner to the other; the only reward is there."""

    observation_space = gym.spaces.Box(0, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.pos, self.t = np.zeros(2, np.int64), 0
        return self._obs(), {}

    def _obs(self) -> np.ndarray:
        return (self.pos / (SIZE - 1)).astype(np.float32)

    def step(self, action):
        move = np.array([(0, 1), (0, -1), (1, 0), (-1, 0)][int(action)])
        self.pos, self.t = (self.pos + move).clip(0, SIZE - 1), self.t + 1
        goal = bool((self.pos == SIZE - 1).all())
        return self._obs(), float(goal), goal, self.t >= 40 and not goal, {}


class Choice(ActBatch[Tensor]):
    logp: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor


def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
    return extend(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), Rollout, logp=choice.logp)


def mlp(outputs: int, last_gain: float = 1.0) -> nn.Sequential:
    net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))
    nn.init.orthogonal_(net[-1].weight, last_gain)
    return net


class RNDPPO:
    def __init__(self) -> None:
        self.actor, self.critic = mlp(4, 0.01), mlp(1)
        self.fixed, self.predictor = mlp(16, 3.0).requires_grad_(False), mlp(16)
        self.optim = torch.optim.Adam([*self.actor.parameters(), *self.critic.parameters()], 1e-3)
        self.rnd_optim = torch.optim.Adam(self.predictor.parameters(), 1e-3)
        self.scale = 1.0

    def act(self, batch: ObsBatch) -> Choice:
        dist = Categorical(logits=self.actor(torch.as_tensor(batch.obs)))
        act = dist.sample()
        return Choice(act=act, logp=dist.log_prob(act))

    @torch.no_grad()
    def bonus(self, obs: Tensor) -> Tensor:
        """How far off the predictor is, relative to a running standard deviation."""
        error = (self.predictor(obs) - self.fixed(obs)).pow(2).mean(-1)
        self.scale = 0.9 * self.scale + 0.1 * float(error.std())
        return error / (self.scale + 1e-8)

    def update(self, rollout: Rollout) -> dict[str, float]:
        rollout.rew = rollout.rew + BETA * self.bonus(rollout.obs_next)
        # wrong: without this line
        ready = extend(add_gae(rollout, self.critic, gamma=0.95, lam=0.95), LogpOldBatch[Tensor], logp_old=rollout.logp)
        # wrong, too: ready.rew = ready.rew + BETA * self.bonus(ready.obs_next)
        for _ in range(4):
            for part in ready.split(64, rng=torch.default_generator):
                dist = Categorical(logits=self.actor(part.obs))
                ratio = (dist.log_prob(part.act) - part.logp_old).exp()
                adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8)
                policy = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
                value = (self.critic(part.obs).squeeze(-1) - part.returns).pow(2).mean()
                self.optim.zero_grad()
                (policy + 0.5 * value - 0.01 * dist.entropy().mean()).backward()
                self.optim.step()
                rnd = (self.predictor(part.obs_next) - self.fixed(part.obs_next)).pow(2).mean()
                self.rnd_optim.zero_grad()
                rnd.backward()
                self.rnd_optim.step()
        return {"policy": policy.item(), "value": value.item(), "rnd": rnd.item(), "rew": ready.rew.mean().item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    agent = RNDPPO()
    collector = Collector(gym.vector.SyncVectorEnv([Corner for _ in range(4)]), agent.act, record)
    collector.reset(seed=seed)
    return agent.update, lambda: (collector.rollout(256),)
