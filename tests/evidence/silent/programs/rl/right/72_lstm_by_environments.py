"""Recurrent PPO with an LSTM: a cue is seen in the first step of an episode only, and must be remembered."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import BatchRecord, extend

GAMMA, LAM, CLIP = 0.95, 0.9, 0.2
STEPS, ENVS, UNITS, EPOCHS = 64, 8, 32, 3


class Sequences(BatchRecord):
    """Steps of all environments, ``(T, N, ...)``. All episodes begin at the first row, and are cut off at the last."""

    obs: Tensor
    act: Tensor
    rew: Tensor
    start: Tensor  # whether the step is the first of its episode
    terminated: Tensor
    truncated: Tensor
    logp: Tensor
    value: Tensor
    value_next: Tensor  # of the observation after the step, also at the end of an episode


class Targets(Sequences):
    adv: Tensor
    returns: Tensor


class Recall:
    """The reward is high for the action that the cue named. An episode may end at any step, or after 20."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.cue, self.time, self.mood = np.zeros((3, ENVS))

    def restart(self, where: NDArray[np.bool_]) -> None:
        self.cue = np.where(where, self.rng.choice([-1.0, 1.0], ENVS), self.cue)
        self.time = np.where(where, 0, self.time)

    def observe(self) -> Tensor:
        return torch.as_tensor(np.stack([self.cue * (self.time == 0), self.time / 20, self.mood], axis=1)).float()

    def step(self, act: NDArray[np.int64]) -> tuple[Tensor, Tensor, NDArray[np.bool_], NDArray[np.bool_]]:
        rew = np.where(act == (self.cue > 0), 1.0, -0.5) + 0.2 * self.mood
        self.time, self.mood = self.time + 1, 0.8 * self.mood + self.rng.normal(0, 0.3, ENVS)
        terminated = self.rng.random(ENVS) < 0.06
        return self.observe(), torch.as_tensor(rew).float(), terminated, (self.time >= 20) & ~terminated


class Memory(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(3, UNITS)
        self.actor, self.critic = nn.Linear(UNITS, 2), nn.Linear(UNITS, 1)

    def forward(self, obs: Tensor, start: Tensor) -> tuple[Categorical, Tensor]:
        """Policy and values of whole sequences."""
        h, c = torch.zeros(2, obs.shape[1], UNITS)
        features = []
        for t in range(len(obs)):
            h, c = h * ~start[t, :, None], c * ~start[t, :, None]
            h, c = self.cell(obs[t], (h, c))
            features.append(h)
        out = torch.stack(features)
        return Categorical(logits=self.actor(out)), self.critic(out).squeeze(-1)


@torch.no_grad()
def play(env: Recall, net: Memory) -> Sequences:
    rows, start = [], torch.ones(ENVS, dtype=torch.bool)
    h, c = torch.zeros(2, ENVS, UNITS)
    for t in range(STEPS):
        env.restart(start.numpy())
        obs = env.observe()
        h, c = net.cell(obs, (h * ~start[:, None], c * ~start[:, None]))
        dist = Categorical(logits=net.actor(h))
        act = dist.sample()
        obs_next, rew, *ends = env.step(act.numpy())
        terminated, truncated = map(torch.as_tensor, ends)
        truncated = truncated | (t == STEPS - 1) & ~terminated
        value, value_next = (net.critic(x).squeeze(-1) for x in (h, net.cell(obs_next, (h, c))[0]))
        rows.append((obs, act, rew, start, terminated, truncated, dist.log_prob(act), value, value_next))
        start = terminated | truncated
    return Sequences(**dict(zip(Sequences.__annotations__, map(torch.stack, zip(*rows)), strict=True)))


def gae(batch: Sequences) -> Targets:
    delta = batch.rew + GAMMA * batch.value_next * ~batch.terminated - batch.value
    on = GAMMA * LAM * ~(batch.terminated | batch.truncated)
    adv, running = torch.zeros_like(delta), torch.zeros(delta.shape[1])
    for t in reversed(range(len(delta))):
        running = delta[t] + on[t] * running
        adv[t] = running
    return extend(batch, Targets, adv=adv, returns=adv + batch.value)


def setup(seed: int = 0) -> tuple[Callable[[Sequences], dict[str, float]], Callable[[], tuple[Sequences]]]:
    torch.manual_seed(seed)
    env, net = Recall(seed), Memory()
    optim = torch.optim.Adam(net.parameters(), lr=3e-3)

    def update(sequences: Sequences) -> dict[str, float]:
        batch = gae(sequences)
        for _ in range(EPOCHS):
            for envs in torch.randperm(ENVS).split(ENVS // 2):
                part = batch[:, envs]
                dist, value = net(part.obs, part.start)
                ratio = (dist.log_prob(part.act) - part.logp).exp()
                adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8)
                policy_loss = -torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
                value_loss = (value - part.returns).pow(2).mean()
                optim.zero_grad()
                (policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()).backward()
                nn.utils.clip_grad_norm_(net.parameters(), 0.5)
                optim.step()
        return {"policy": policy_loss.item(), "value": value_loss.item()}

    return update, lambda: (play(env, net),)
