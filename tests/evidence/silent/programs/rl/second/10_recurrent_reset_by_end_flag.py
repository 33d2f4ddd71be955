"""Recurrent PPO (GRU cell) on CartPole without velocities, with minibatches of environments as in CleanRL's LSTM agent."""
# wrong: """In the update, the state is cleared before the last step of an episode and carried over into the next: flags of the wrong step."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import BatchRecord

STEPS, ENVS, UNITS, GAMMA, LAMBDA, CLIP = 48, 4, 32, 0.98, 0.95, 0.2


class Sequences(BatchRecord):
    """A row per environment: T steps, and the state before the first one."""

    obs: Tensor  # (E, T, 2)
    act: Tensor  # (E, T)
    logp: Tensor
    start: Tensor  # whether the observation is the first of an episode
    end: Tensor  # whether the step was the last of an episode
    adv: Tensor
    returns: Tensor
    state: Tensor  # (E, units)


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.cell = nn.Sequential(nn.Linear(2, UNITS), nn.Tanh()), nn.GRUCell(UNITS, UNITS)
        self.actor, self.critic = nn.Linear(UNITS, 2), nn.Linear(UNITS, 1)

    def step(self, obs: Tensor, state: Tensor, start: Tensor) -> Tensor:
        return self.cell(self.encoder(obs), state * (1.0 - start)[:, None])

    def unroll(self, obs: Tensor, state: Tensor, start: Tensor) -> Tensor:
        states = []
        for t in range(obs.shape[1]):
            state = self.step(obs[:, t], state, start[:, t])
            states.append(state)
        return torch.stack(states, 1)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs = gym.make_vec(
        "CartPole-v1", ENVS, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}
    )
    agent = Agent()
    optim = torch.optim.Adam(agent.parameters(), 1e-3)

    def seen(obs: np.ndarray) -> Tensor:
        return torch.as_tensor(obs[:, [0, 2]]) * torch.tensor([1.0, 10.0])

    now = {"obs": seen(envs.reset(seed=seed)[0]), "start": torch.ones(ENVS), "state": torch.zeros(ENVS, UNITS)}

    @torch.no_grad()
    def draw() -> tuple[Sequences]:
        first = now["state"]
        obs, act = torch.zeros(ENVS, STEPS, 2), torch.zeros(ENVS, STEPS, dtype=torch.int64)
        logp, rew, value, start, end = (torch.zeros(ENVS, STEPS) for _ in range(5))
        for t in range(STEPS):
            obs[:, t], start[:, t] = now["obs"], now["start"]
            now["state"] = agent.step(now["obs"], now["state"], now["start"])
            dist = Categorical(logits=agent.actor(now["state"]))
            act[:, t] = dist.sample()
            logp[:, t], value[:, t] = dist.log_prob(act[:, t]), agent.critic(now["state"]).squeeze(-1)
            obs_next, reward, terminated, truncated, _ = envs.step(act[:, t].numpy())
            rew[:, t] = torch.as_tensor(reward)
            end[:, t] = torch.as_tensor(terminated | truncated).float()
            now["obs"], now["start"] = seen(obs_next), end[:, t]
        state = agent.step(now["obs"], now["state"], now["start"])
        value_next, last, adv = agent.critic(state).squeeze(-1), torch.zeros(ENVS), torch.zeros(ENVS, STEPS)
        for t in reversed(range(STEPS)):
            delta = rew[:, t] + GAMMA * (1 - end[:, t]) * value_next - value[:, t]
            adv[:, t] = last = delta + GAMMA * LAMBDA * (1 - end[:, t]) * last
            value_next = value[:, t]
        return (Sequences(obs=obs, act=act, logp=logp, start=start, end=end, adv=adv, returns=adv + value, state=first),)

    def update(batch: Sequences) -> dict[str, float]:
        for _ in range(3):
            for part in batch.split(ENVS // 2, rng=torch.default_generator):
                out = agent.unroll(part.obs, part.state, part.start)
                # wrong: out = agent.unroll(part.obs, part.state, part.end)
                dist = Categorical(logits=agent.actor(out))
                ratio = (dist.log_prob(part.act) - part.logp).exp()
                adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8)
                policy = -torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
                value = (agent.critic(out).squeeze(-1) - part.returns).pow(2).mean()
                optim.zero_grad()
                (policy + 0.05 * value - 0.01 * dist.entropy().mean()).backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optim.step()
        return {"policy": policy.item(), "value": value.item()}

    return update, draw
