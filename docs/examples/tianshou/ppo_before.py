"""PPO on CartPole with Tianshou's Batch and vector buffer, and a loop of its own."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm import PPO
from tianshou.data import Batch, VectorReplayBuffer
from torch import nn
from torch.distributions import Categorical

ENVS = 4
Buffer = VectorReplayBuffer


def process(batch: Batch, buffer: Buffer, indices: np.ndarray, actor: nn.Module, critic: nn.Module) -> Batch:
    with torch.no_grad():
        obs, obs_next = torch.as_tensor(batch.obs), torch.as_tensor(batch.obs_next)
        batch.v_s = critic(obs).flatten()
        v_next = critic(obs_next).flatten()
        batch.logp_old = Categorical(logits=actor(obs)).log_prob(torch.as_tensor(batch.act))
    returns, adv = PPO.compute_episodic_return(batch, buffer, indices, v_next.numpy(), batch.v_s.numpy())
    batch.returns = torch.as_tensor(returns).float()
    batch.adv = torch.as_tensor(adv).float()
    return batch


def learn(batch: Batch, actor: nn.Module, critic: nn.Module, optim: torch.optim.Optimizer) -> None:
    for part in batch.split(64, merge_last=True):
        obs = torch.as_tensor(part.obs)
        logp = Categorical(logits=actor(obs)).log_prob(torch.as_tensor(part.act))
        ratio = (logp - part.logp_old).exp()
        gain = torch.min(ratio * part.adv, ratio.clamp(0.8, 1.2) * part.adv).mean()
        loss = (part.returns - critic(obs).flatten()).pow(2).mean() - gain
        optim.zero_grad()
        loss.backward()
        optim.step()


def main(rounds: int = 4) -> nn.Module:
    torch.manual_seed(0)
    np.random.seed(0)  # what Batch.split shuffles with
    envs = [gym.make("CartPole-v1") for _ in range(ENVS)]
    actor = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-3)
    obs = np.stack([env.reset(seed=i)[0] for i, env in enumerate(envs)])
    for _ in range(rounds):
        buffer = Buffer(total_size=ENVS * 64, buffer_num=ENVS)
        for _ in range(64):
            with torch.no_grad():
                act = Categorical(logits=actor(torch.as_tensor(obs))).sample().numpy()
            obs_next, rew, terminated, truncated = map(
                np.array, zip(*(env.step(a)[:4] for env, a in zip(envs, act, strict=True)), strict=True)
            )
            flags = {"terminated": terminated, "truncated": truncated}
            buffer.add(Batch(obs=obs, act=act, rew=rew, obs_next=obs_next, info=Batch(), **flags))
            done = terminated | truncated
            obs = np.stack([env.reset()[0] if end else o for env, end, o in zip(envs, done, obs_next, strict=True)])
        batch, indices = buffer.sample(0)
        learn(process(batch, buffer, indices, actor, critic), actor, critic, optim)
    return actor


if __name__ == "__main__":
    print(sum(float(p.detach().abs().sum()) for p in main().parameters()))
