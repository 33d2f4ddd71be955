"""A2C on a time-limited Pendulum: returns stop at terminal states and bootstrap where the time limit cut an episode."""
# wrong: """Returns treat the time limit as a terminal state: no bootstrapped value where an episode was truncated."""

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Normal

from typedbatch import Batch, RolloutBatch

N_ENVS, N_STEPS, GAMMA, VALUE_COEF, ENT_COEF = 6, 20, 0.95, 0.5, 1e-3


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body_pi = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
        self.body_v = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
        self.log_std = nn.Parameter(torch.zeros(1))

    def dist(self, obs):
        return Normal(self.body_pi(obs), self.log_std.exp())

    def value(self, obs):
        return self.body_v(obs).squeeze(-1)


def make_envs(seed):
    envs = [gym.make("Pendulum-v1", max_episode_steps=30) for _ in range(N_ENVS)]
    return envs, [env.reset(seed=seed + i)[0] for i, env in enumerate(envs)]


def collect(envs, current, model):
    columns = {name: [] for name in ("obs", "act", "rew", "terminated", "truncated", "obs_next")}
    for _ in range(N_STEPS):
        obs = np.stack(current)
        with torch.no_grad():
            act = model.dist(torch.as_tensor(obs)).sample().numpy()
        results = [env.step(np.clip(a, -2, 2)) for env, a in zip(envs, act)]
        obs_next, rew, terminated, truncated = (np.stack([r[i] for r in results]) for i in range(4))
        for name, value in zip(columns, (obs, act, rew.astype(np.float32) / 8, terminated, truncated, obs_next)):
            columns[name].append(value)
        for i, env in enumerate(envs):
            current[i] = env.reset()[0] if terminated[i] or truncated[i] else obs_next[i]
    tensors = {name: torch.as_tensor(np.stack(value)) for name, value in columns.items()}
    return RolloutBatch[Tensor](**tensors, info=Batch())


def n_step_returns(batch, model):
    """Discounted sums over the rollout, (T, E), closed by the value of the last observation."""
    with torch.no_grad():
        v_next = model.value(batch.obs_next)
        returns = torch.zeros_like(batch.rew)
        after = v_next[-1]
        for t in reversed(range(N_STEPS)):
            after = torch.where(batch.truncated[t], v_next[t], after)
            returns[t] = batch.rew[t] + GAMMA * after * (~batch.terminated[t])
            # wrong: returns[t] = batch.rew[t] + GAMMA * after * (~(batch.terminated[t] | batch.truncated[t]))
            after = returns[t]
    return returns


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model = ActorCritic()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=7e-4, alpha=0.99, eps=1e-5)
    envs, current = make_envs(seed)

    def draw():
        return (collect(envs, current, model),)

    def update(batch):
        returns = n_step_returns(batch, model)
        values = model.value(batch.obs)
        adv = (returns - values).detach()
        dist = model.dist(batch.obs)
        logp = dist.log_prob(batch.act).sum(-1)
        policy_loss = -(adv * logp).mean()
        value_loss = (returns - values).pow(2).mean()
        entropy = dist.entropy().sum(-1).mean()
        optimizer.zero_grad()
        (policy_loss + VALUE_COEF * value_loss - ENT_COEF * entropy).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return {"policy": policy_loss.item(), "value": value_loss.item(), "entropy": entropy.item()}

    return update, draw
