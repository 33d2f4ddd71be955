"""CleanRL-like PPO on CartPole with its own loop over vector environments and (T, E) storage."""
# wrong: """The value behind the last stored step is that of the last stored observation, not of the observation after it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import BatchRecord

STEPS, ENVS, GAMMA, LAMBDA, CLIP = 32, 4, 0.99, 0.95, 0.2
EPOCHS, MINIBATCH = 4, 32


class Flat(BatchRecord):
    """One row per step of an environment."""

    obs: Tensor
    act: Tensor
    logp: Tensor
    adv: Tensor
    returns: Tensor


def layer(inputs: int, outputs: int, std: float = 2**0.5) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, std)
    nn.init.zeros_(linear.bias)
    return linear


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(layer(4, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0))
        self.actor = nn.Sequential(layer(4, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 2, 0.01))

    def value(self, obs: Tensor) -> Tensor:
        return self.critic(obs).squeeze(-1)

    def dist(self, obs: Tensor) -> Categorical:
        return Categorical(logits=self.actor(obs))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs = gym.make_vec(
        "CartPole-v1", ENVS, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}
    )
    agent = Agent()
    optim = torch.optim.Adam(agent.parameters(), 2.5e-4, eps=1e-5)
    first, _ = envs.reset(seed=seed)
    now = {"obs": torch.as_tensor(first)}

    @torch.no_grad()
    def draw() -> tuple[Flat]:
        obs = torch.zeros(STEPS, ENVS, 4)
        act = torch.zeros(STEPS, ENVS, dtype=torch.int64)
        logp, rew, done, value = (torch.zeros(STEPS, ENVS) for _ in range(4))
        for t in range(STEPS):
            obs[t] = now["obs"]
            dist = agent.dist(obs[t])
            act[t] = dist.sample()
            logp[t], value[t] = dist.log_prob(act[t]), agent.value(obs[t])
            obs_next, reward, terminated, truncated, infos = envs.step(act[t].numpy())
            rew[t] = torch.as_tensor(reward)
            for i in np.flatnonzero(truncated & ~terminated):  # a time limit is no failure
                rew[t, i] += GAMMA * agent.value(torch.as_tensor(infos["final_obs"][i])[None])[0]
            done[t] = torch.as_tensor(terminated | truncated, dtype=torch.float32)
            now["obs"] = torch.as_tensor(obs_next)
        adv, last = torch.zeros(STEPS, ENVS), torch.zeros(ENVS)
        value_next = agent.value(now["obs"])
        # wrong: value_next = agent.value(obs[-1])
        for t in reversed(range(STEPS)):
            delta = rew[t] + GAMMA * value_next * (1 - done[t]) - value[t]
            adv[t] = last = delta + GAMMA * LAMBDA * (1 - done[t]) * last
            value_next = value[t]
        flat = {"obs": obs, "act": act, "logp": logp, "adv": adv, "returns": adv + value}
        return (Flat(**{name: tensor.flatten(0, 1) for name, tensor in flat.items()}),)

    def update(batch: Flat) -> dict[str, float]:
        for _ in range(EPOCHS):
            for mb in batch.split(MINIBATCH, rng=torch.default_generator):
                dist = agent.dist(mb.obs)
                ratio = (dist.log_prob(mb.act) - mb.logp).exp()
                adv = (mb.adv - mb.adv.mean()) / (mb.adv.std() + 1e-8)
                pg_loss = torch.max(-adv * ratio, -adv * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
                v_loss = 0.5 * (agent.value(mb.obs) - mb.returns).pow(2).mean()
                loss = pg_loss - 0.01 * dist.entropy().mean() + 0.5 * v_loss
                optim.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optim.step()
        return {"policy": pg_loss.item(), "value": v_loss.item()}

    return update, draw
