"""Synchronous A2C with its own loop over vector environments, (T, E) storage and n-step GAE."""
# wrong: """The advantages are transposed before they are flattened, but observations and actions are not (rows of other environments)."""
# SB3's `swap_and_flatten` treats all fields alike for this reason (no single source).
from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import BatchRecord

torch.set_num_threads(1)
T, E, GAMMA, LAM = 32, 8, 0.99, 0.95


class Steps(BatchRecord):
    obs: Tensor  # (T, E, 4)
    act: Tensor
    rew: Tensor
    obs_next: Tensor
    terminated: Tensor
    done: Tensor


class Flat(BatchRecord):
    obs: Tensor
    act: Tensor
    adv: Tensor
    returns: Tensor


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 64), nn.Tanh())
        self.pi, self.v = nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, obs: Tensor) -> tuple[Categorical, Tensor]:
        hidden = self.body(obs)
        return Categorical(logits=self.pi(hidden)), self.v(hidden).squeeze(-1)


def gae(steps: Steps, value: Tensor, value_next: Tensor) -> Tensor:
    """Advantages (T, E)."""
    adv, running = torch.zeros_like(value), torch.zeros(value.shape[1])
    for t in reversed(range(len(value))):
        delta = steps.rew[t] + GAMMA * value_next[t] * (1 - steps.terminated[t]) - value[t]
        running = delta + GAMMA * LAM * (1 - steps.done[t]) * running
        adv[t] = running
    return adv


def setup(seed: int = 0):
    torch.manual_seed(seed)
    mode = {"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP}
    envs = gym.make_vec("CartPole-v1", E, vectorization_mode="sync", vector_kwargs=mode)
    net = ActorCritic()
    optim = torch.optim.Adam(net.parameters(), 7e-4)
    state = {"obs": torch.as_tensor(envs.reset(seed=seed)[0])}

    @torch.no_grad()
    def collect() -> tuple[Steps]:
        columns: dict[str, list[Tensor]] = {name: [] for name in ("obs", "act", "rew", "obs_next", "terminated", "done")}
        for _ in range(T):
            act = net(state["obs"])[0].sample()
            obs_next, rew, terminated, truncated, info = envs.step(act.numpy())
            last = obs_next.copy()
            for env in np.flatnonzero(terminated | truncated):
                last[env] = info["final_obs"][env]
            row = state["obs"], act, rew, last, terminated, terminated | truncated
            for column, value in zip(columns.values(), row, strict=True):
                column.append(torch.as_tensor(value))
            state["obs"] = torch.as_tensor(obs_next)
        steps = {name: torch.stack(column) for name, column in columns.items()}
        return (Steps(**{name: column if name == "act" else column.float() for name, column in steps.items()}),)

    def flatten(steps: Steps) -> Flat:
        with torch.no_grad():
            value = net(steps.obs)[1]
            adv = gae(steps, value, net(steps.obs_next)[1])
        flat = [column.flatten(0, 1) for column in (steps.obs, steps.act, value)]
        adv = adv.reshape(-1)
        # wrong: adv = adv.swapaxes(0, 1).reshape(-1)
        return Flat(obs=flat[0], act=flat[1], adv=adv, returns=adv + flat[2])

    def update(steps: Steps) -> dict[str, float]:
        batch = flatten(steps)
        dist, value = net(batch.obs)
        adv = (batch.adv - batch.adv.mean()) / (batch.adv.std() + 1e-8)
        policy_loss = -(dist.log_prob(batch.act) * adv).mean()
        value_loss = (value - batch.returns).pow(2).mean()
        optim.zero_grad()
        (policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optim.step()
        return {"policy": policy_loss.item(), "value": value_loss.item()}

    return update, collect
