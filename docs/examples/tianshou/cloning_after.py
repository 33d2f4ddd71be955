"""Cloning the better half of some episodes: typed data, and the policy stays Tianshou's."""

from __future__ import annotations

from typing import Generic

import gymnasium as gym
import numpy as np
import torch
from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
from tianshou.utils.net.common import Net
from tianshou.utils.net.discrete import DiscreteActor
from torch.nn.functional import cross_entropy

from typedbatch import Batch, BatchRecord, K_co, validate


class Steps(BatchRecord, Generic[K_co]):
    """What is cloned; ``rtg`` is the return from each step to the end of its episode."""

    obs: K_co
    act: K_co
    rew: K_co
    done: K_co
    rtg: K_co


def episode(env: gym.Env, seed: int) -> Steps:
    rng = np.random.default_rng(seed)
    obs, _ = env.reset(seed=seed)
    rows, done = [], False
    while not done:
        act = int(rng.integers(2))
        obs_next, rew, terminated, truncated, _ = env.step(act)
        rows.append(Batch(obs=obs, act=act, rew=rew, done=terminated or truncated))
        obs, done = obs_next, terminated or truncated
    batch = Batch.stack(rows)
    batch.rtg = np.cumsum(batch.rew[::-1])[::-1].copy()
    return validate(batch, Steps)


def main(episodes: int = 30) -> torch.nn.Module:
    torch.manual_seed(0)
    np.random.seed(0)  # what Batch.split shuffles with
    env = gym.make("CartPole-v1")
    data = Batch.cat([episode(env, seed) for seed in range(episodes)])
    data = data[data.rtg >= np.median(data.rtg)]
    data.set_array_at_key(np.log(data.rtg), "weight")
    actor = DiscreteActor(preprocess_net=Net(state_shape=(4,), hidden_sizes=[32]), action_shape=2)
    policy = DiscreteActorPolicy(actor=actor, action_space=env.action_space, deterministic_eval=True)
    optim = torch.optim.Adam(actor.parameters(), lr=1e-3)
    data.to_torch_()
    for part in data.split(32):
        logits = policy(Batch(obs=part.obs, info=Batch())).logits
        loss = (part.weight.float() * cross_entropy(logits, part.act, reduction="none")).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
    return policy


if __name__ == "__main__":
    print(sum(float(p.detach().abs().sum()) for p in main().parameters()))
