"""AWAC with discrete actions on a fixed data set of CartPole, one pass over the data per update."""
# wrong: """The rewards are scaled in place in views of the data set, so each pass over it makes them ten times smaller again."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, ObsBatch, RolloutBatch, convert
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

GAMMA, REWARD_SCALE, TEMPERATURE, MINIBATCH = 0.99, 0.1, 1.0, 128


def collect_data(seed: int) -> RolloutBatch[Tensor]:
    rng = np.random.default_rng(seed)

    def sometimes_right(batch: ObsBatch) -> ActBatch:
        good = (batch.obs[:, 2] + 0.5 * batch.obs[:, 3] > 0).astype(np.int64)
        return ActBatch(act=np.where(rng.random(len(good)) < 0.4, rng.integers(0, 2, len(good)), good))

    collector = Collector(gym.make_vec("CartPole-v1", 4, vectorization_mode="sync"), sometimes_right)
    collector.reset(seed=seed)
    rows = collector.rollout(1_024)
    rows = rows[rng.permutation(len(rows))]
    return convert(rows, RolloutBatch[Tensor], dtype=torch.float32)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    data = collect_data(seed)
    actor = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    critic = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    critic_target = copy.deepcopy(critic)
    actor_optim = torch.optim.Adam(actor.parameters(), 1e-3)
    critic_optim = torch.optim.Adam(critic.parameters(), 1e-3)

    def critic_step(part: RolloutBatch[Tensor]) -> Tensor:
        rew = part.rew.mul(REWARD_SCALE)
        # wrong: rew = part.rew.mul_(REWARD_SCALE)
        with torch.no_grad():
            pi_next = actor(part.obs_next).softmax(-1)
            value_next = (pi_next * critic_target(part.obs_next)).sum(-1)
            goal = rew + GAMMA * (~part.terminated) * value_next
        q = critic(part.obs).gather(1, part.act[:, None]).squeeze(1)
        loss = (q - goal).pow(2).mean()
        critic_optim.zero_grad()
        loss.backward()
        critic_optim.step()
        return loss.detach()

    def actor_step(part: RolloutBatch[Tensor]) -> Tensor:
        dist = Categorical(logits=actor(part.obs))
        with torch.no_grad():
            q = critic(part.obs)
            adv = q.gather(1, part.act[:, None]).squeeze(1) - (dist.probs * q).sum(-1)
            weight = (adv / TEMPERATURE).exp().clamp(max=20.0)
        loss = -(weight * dist.log_prob(part.act)).mean()
        actor_optim.zero_grad()
        loss.backward()
        actor_optim.step()
        return loss.detach()

    def update(rows: RolloutBatch[Tensor]) -> dict[str, float]:
        for part in rows.split(MINIBATCH, shuffle=False, merge_last=True):
            critic_loss, actor_loss = critic_step(part), actor_step(part)
            with torch.no_grad():
                for slow, fast in zip(critic_target.parameters(), critic.parameters(), strict=True):
                    slow.lerp_(fast, 0.02)
        return {"critic": critic_loss.item(), "actor": actor_loss.item()}

    return update, lambda: (data,)
