"""PPO and DQN as single-file scripts are written: arrays, tensors, a loop; what docs/examples do.

The networks, the settings and what is computed are those of the examples, so that the time beside them is that of what
they hand from one function to the next.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import nn
from torch.distributions import Categorical

ENVS = 8
TURN = 400
"""Number of steps after which DQN leaves its turn to the other contender."""


def cartpoles(count: int = ENVS) -> Any:
    """In this process, reset within the step that ends an episode."""
    kwargs = {"autoreset_mode": AutoresetMode.SAME_STEP}
    return gym.make_vec("CartPole-v1", count, vectorization_mode="sync", vector_kwargs=kwargs)


def ppo(seed: int, example: Any) -> Iterator[tuple[int, nn.Module]]:
    """Steps so far, and the actor, after each rollout of 32 steps. ``example`` is ``docs/examples/ppo.py``."""
    steps, step = 32, 0
    envs = cartpoles()
    actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2))
    critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    params = [*actor.parameters(), *critic.parameters()]
    optim = torch.optim.Adam(params, example.LEARNING_RATE)
    obs_t, obs_next_t = torch.zeros(steps, ENVS, 4), torch.zeros(steps, ENVS, 4)
    act_t = torch.zeros(steps, ENVS, dtype=torch.int64)
    logp_t, value_t, rew_t = (torch.zeros(steps, ENVS) for _ in range(3))
    terminated_t, done_t = torch.zeros(steps, ENVS), torch.zeros(steps, ENVS)
    obs = torch.as_tensor(envs.reset(seed=seed)[0])
    rng = np.random.default_rng(seed)
    while True:
        for t in range(steps):
            with torch.no_grad():
                dist = Categorical(logits=actor(obs))
                act = dist.sample()
                obs_t[t], act_t[t], logp_t[t], value_t[t] = obs, act, dist.log_prob(act), critic(obs).squeeze(-1)
            after, rew, terminated, truncated, info = envs.step(act.numpy())
            obs_next_t[t] = obs = torch.as_tensor(after)
            if "final_obs" in info:
                for env in np.flatnonzero(info["_final_obs"]):
                    obs_next_t[t, env] = torch.as_tensor(info["final_obs"][env])
            rew_t[t], terminated_t[t] = torch.as_tensor(rew), torch.as_tensor(terminated)
            done_t[t] = torch.as_tensor(terminated | truncated)
            step += ENVS
        with torch.no_grad():
            next_value = critic(obs_next_t).squeeze(-1)
            adv_t, last = torch.zeros(steps, ENVS), torch.zeros(ENVS)
            for t in reversed(range(steps)):
                delta = rew_t[t] + example.GAMMA * next_value[t] * (1 - terminated_t[t]) - value_t[t]
                adv_t[t] = last = delta + example.GAMMA * example.LAMBDA * (1 - done_t[t]) * last
            returns_t = adv_t + value_t
        flat = [x.reshape(-1, *x.shape[2:]) for x in (obs_t, act_t, logp_t, adv_t, returns_t)]
        rows = np.arange(steps * ENVS)
        for _ in range(example.EPOCHS):
            rng.shuffle(rows)
            for start in range(0, len(rows), example.MINIBATCH):
                b_obs, b_act, b_logp, adv, b_returns = (x[rows[start : start + example.MINIBATCH]] for x in flat)
                dist = Categorical(logits=actor(b_obs))
                ratio = (dist.log_prob(b_act) - b_logp).exp()
                adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                policy_loss = -torch.min(ratio * adv, ratio.clamp(1 - example.CLIP, 1 + example.CLIP) * adv).mean()
                value_loss = (critic(b_obs).squeeze(-1) - b_returns).pow(2).mean()
                optim.zero_grad()
                (policy_loss + 0.5 * value_loss - example.ENTROPY * dist.entropy().mean()).backward()
                nn.utils.clip_grad_norm_(params, 0.5)
                optim.step()
                policy_loss.item(), value_loss.item()
        yield step, actor


def dqn(seed: int, example: Any, num_envs: int, every: int, updates: int) -> Iterator[int]:
    """Run ``docs/examples/dqn.py`` without prioritized replay, and yield the steps so far after each turn.

    After ``every`` steps, of all environments together, there are ``updates`` updates.
    """
    size, n_step, batch_size = 50_000, example.N_STEP, example.BATCH
    rng = np.random.default_rng(seed)
    envs = cartpoles(num_envs)
    net = nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2))
    target = copy.deepcopy(net)
    optim = torch.optim.Adam(net.parameters(), example.LEARNING_RATE)
    room = size // num_envs
    shape = (num_envs, room)
    obs_m, obs_next_m = np.zeros((*shape, 4), np.float32), np.zeros((*shape, 4), np.float32)
    act_m, rew_m = np.zeros(shape, np.int64), np.zeros(shape, np.float32)
    terminated_m, done_m = np.zeros(shape, bool), np.zeros(shape, bool)
    obs, _ = envs.reset(seed=seed)
    zeros, weight = np.zeros(num_envs, np.int64), torch.ones(batch_size)
    for count in itertools.count():
        step, place = count * num_envs, count % room
        warm = step >= 1_000
        eps = max(0.05, 1 - step / 5_000) if warm else 1.0
        with torch.no_grad():
            act = net(torch.as_tensor(obs)).argmax(-1).numpy() if warm else zeros
        act = np.where(rng.random(num_envs) < eps, rng.integers(0, 2, num_envs), act)
        obs_m[:, place], act_m[:, place] = obs, act
        obs, rew_m[:, place], terminated_m[:, place], truncated, info = envs.step(act)
        obs_next_m[:, place], done_m[:, place] = obs, terminated_m[:, place] | truncated
        if "final_obs" in info:
            for env in np.flatnonzero(info["_final_obs"]):
                obs_next_m[env, place] = info["final_obs"][env]
        for _ in range(updates if warm and (step + num_envs) % every == 0 else 0):
            env, first = rng.integers(0, num_envs, batch_size), rng.integers(0, count + 1, batch_size)
            returns, discount, last = np.zeros(batch_size, np.float32), np.ones(batch_size, np.float32), first.copy()
            live = np.ones(batch_size, bool)
            for k in range(n_step):
                at = np.minimum(first + k, count)
                live &= first + k <= count
                returns += np.where(live, discount * rew_m[env, at], 0)
                last = np.where(live, at, last)
                discount = np.where(live, discount * example.GAMMA, discount)
                live &= ~done_m[env, at]
            with torch.no_grad():
                after = torch.as_tensor(obs_next_m[env, last])
                best = net(after).argmax(-1, keepdim=True)
                value = target(after).gather(-1, best).squeeze(-1)
                goes_on = torch.as_tensor(discount * ~terminated_m[env, last])
                expected = torch.as_tensor(returns) + goes_on * value
            chosen = net(torch.as_tensor(obs_m[env, first])).gather(-1, torch.as_tensor(act_m[env, first])[:, None])
            optim.zero_grad()
            error = nn.functional.smooth_l1_loss(chosen.squeeze(-1), expected, reduction="none")
            (weight * error).mean().backward()
            optim.step()
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), net.parameters(), strict=True):
                    slow.lerp_(fast, example.TAU)
            (chosen.squeeze(-1).detach() - expected).abs().mean().item()
        if (step + num_envs) % TURN == 0:
            yield step + num_envs
