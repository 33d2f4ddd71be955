"""Recurrent PPO on CartPole without velocities: ``python docs/examples/recurrent_ppo.py [seed]``.

The observations are positions only, so a policy without memory cannot balance the pole for long: with ``0`` behind the
seed, the state is forgotten at each step. ``state_in`` is the state of the GRU before each row, so that any piece of an
episode can be trained by itself. ``state_out`` is the state after it, with which ``obs_next`` has a value.
"""

from __future__ import annotations

import sys

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers.vector import TransformObservation
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, ActStateBatch, LogpOldBatch, RolloutBatch, convert, extend
from typedbatch.buffers import compute_episodic_return
from typedbatch.episodes import episode_lengths
from typedbatch.sequences import chop, mask, pad, unpad
from typedbatch.training import Collector, Losses, ObsStateBatch, on_policy

GAMMA, LAMBDA, CLIP, UNITS = 0.98, 0.9, 0.2, 64
PASSES, PIECE, MINIBATCH, LEARNING_RATE = 10, 32, 512, 2e-3
SCALE = np.array([1, 10], np.float32)  # of the position and the angle, which is below 0.21
VALUE_WEIGHT = 0.001  # actor and critic share the GRU, and errors of returns up to 50 are large


class Choice(ActBatch[Tensor]):
    """Action with the next state, its log-probability, and the value of the observation."""

    state: Tensor
    logp: Tensor
    value: Tensor


class Steps(RolloutBatch):
    """Transitions with the state that the policy got; the collector adds it."""

    state_in: Tensor


class Rollout(RolloutBatch[Tensor]):
    """Transitions with the states before and after them."""

    state_in: Tensor
    state_out: Tensor
    logp: Tensor
    value: Tensor


class Targets(LogpOldBatch[Tensor]):
    """Transitions with all that PPO learns from."""

    state_in: Tensor


def record(rollout: Steps, choice: Choice) -> Rollout:
    fields = {"state_out": choice.state, "logp": choice.logp, "value": choice.value}
    return extend(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), Rollout, **fields)


class RecurrentPPO:
    """A GRU with an actor and a critic on top, and how they learn."""

    def __init__(self, memory: bool) -> None:
        self.gru = nn.GRU(2, UNITS, batch_first=True)
        self.actor, self.critic = nn.Linear(UNITS, 2), nn.Linear(UNITS, 1)
        self.parameters = [p for part in (self.gru, self.actor, self.critic) for p in part.parameters()]
        self.optim = torch.optim.Adam(self.parameters, LEARNING_RATE)
        self.memory = memory

    def features(self, obs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Return the features of each step of P sequences, ``(P, T, units)``, and the last state, ``(P, units)``."""
        out, last = self.gru(obs, state[None] * self.memory)
        return out, last[0]

    def sample(self, batch: ObsStateBatch) -> Choice:
        out, state = self.features(torch.as_tensor(batch.obs)[:, None], batch.state)
        dist = Categorical(logits=self.actor(out[:, 0]))
        act = dist.sample()
        return Choice(act=act, state=state, logp=dist.log_prob(act), value=self.critic(out[:, 0]).squeeze(-1))

    def greedy(self, batch: ObsStateBatch) -> ActStateBatch[Tensor]:
        out, state = self.features(torch.as_tensor(batch.obs)[:, None], batch.state)
        return ActStateBatch[Tensor](act=self.actor(out[:, 0]).argmax(-1), state=state)

    def process(self, batch: Rollout) -> Targets:
        with torch.no_grad():
            value_next = self.critic(self.features(batch.obs_next[:, None], batch.state_out)[0][:, 0]).squeeze(-1)
        returns, adv = compute_episodic_return(batch, v_s_=value_next, v_s=batch.value, gamma=GAMMA, gae_lambda=LAMBDA)
        adv = (adv - adv.mean()) / adv.std()
        return extend(batch, Targets, v_s=batch.value, returns=returns, adv=adv, logp_old=batch.logp)

    def learn(self, batch: Targets) -> Losses:
        """Learn from sequences of at most ``PIECE`` steps, each of one episode."""
        piece = PIECE if self.memory else 1
        lengths = chop(episode_lengths(batch), piece)
        pieces, there = pad(batch, lengths), torch.as_tensor(mask(lengths))
        total = 0.0
        for _ in range(PASSES):
            for chosen in torch.randperm(len(pieces)).split(MINIBATCH // piece):
                part, rows = pieces[chosen], unpad(pieces[chosen], there[chosen])
                out = self.features(part.obs, part.state_in[:, 0])[0][there[chosen]]
                dist = Categorical(logits=self.actor(out))
                ratio = (dist.log_prob(rows.act) - rows.logp_old).exp()
                clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
                policy_loss = -torch.min(ratio * rows.adv, clipped * rows.adv).mean()
                value_loss = (self.critic(out).squeeze(-1) - rows.returns).pow(2).mean()
                self.optim.zero_grad()
                (policy_loss + VALUE_WEIGHT * value_loss).backward()
                nn.utils.clip_grad_norm_(self.parameters, 0.5)
                self.optim.step()
                total += value_loss.item()
        return {"value": total}

    def update(self, batch: Rollout) -> Losses:
        return self.learn(self.process(batch))


def positions(num_envs: int) -> TransformObservation:
    """Create environments whose observations are the position of the cart and the angle of the pole."""
    space = gym.spaces.Box(-np.inf, np.inf, (2,))
    envs = gym.make_vec("CartPole-v1", num_envs)
    return TransformObservation(envs, lambda obs: obs[:, [0, 2]] * SCALE, batch_space(space, num_envs), space)


def main(seed: int = 0, memory: int = 1, steps: int = 60_000) -> None:
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    ppo = RecurrentPPO(bool(memory))
    collector = Collector(positions(8), ppo.sample, record, state=torch.zeros(UNITS), rollout=Steps)
    tester = Collector(positions(10), ppo.greedy, state=torch.zeros(UNITS))
    collector.reset(seed)
    for epoch in on_policy(collector, ppo.update, n_step=1024, epoch_steps=10_000, total_steps=steps):
        score = tester.evaluate(20, seed=seed + 1000).mean
        print(f"{epoch.step:6} steps, collected {epoch.collected.mean:5.1f}, mean return {score:5.1f}")
        if score >= 475:
            break


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
