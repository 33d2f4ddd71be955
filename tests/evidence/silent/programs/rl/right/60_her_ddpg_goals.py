"""DDPG with hindsight after OpenAI baselines: goal observations in a HER buffer, main and target networks, running normalizer."""
import copy
import numpy as np
import torch
from torch import nn
from typedbatch import Batch
from typedbatch.buffers import HERReplayBuffer

GAMMA, POLYAK, HORIZON = 0.9, 0.95, 12

def reward_fn(achieved, desired):
    return -(np.linalg.norm(achieved - desired, axis=-1) > 0.25).astype(np.float64)

class Normalizer:
    """Statistics of what has been stored; they are read by the networks and written by the collection only."""
    def __init__(self, size):
        self.n, self.sum, self.sumsq = 1e-2, torch.zeros(size), torch.full((size,), 1e-2)
    def update(self, x):
        x = torch.as_tensor(x, dtype=torch.float32)
        self.n, self.sum, self.sumsq = self.n + len(x), self.sum + x.sum(0), self.sumsq + x.pow(2).sum(0)
    def normalize(self, x):
        mean = self.sum / self.n
        std = (self.sumsq / self.n - mean**2).clamp(min=1e-4).sqrt()
        return ((torch.as_tensor(x, dtype=torch.float32) - mean) / std).clamp(-5, 5)

class DDPG:
    def __init__(self):
        self.main = nn.ModuleDict({"pi": self._mlp(6, 2, nn.Tanh()), "Q": self._mlp(8, 1)})
        self.target = copy.deepcopy(self.main)
        self.o_stats, self.g_stats = Normalizer(4), Normalizer(2)
        self.Q_adam = torch.optim.Adam(self.main["Q"].parameters(), 1e-3)
        self.pi_adam = torch.optim.Adam(self.main["pi"].parameters(), 1e-3)

    @staticmethod
    def _mlp(i, o, *tail):
        return nn.Sequential(nn.Linear(i, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, o), *tail)

    def inputs(self, obs):
        return torch.cat([self.o_stats.normalize(obs.observation), self.g_stats.normalize(obs.desired_goal)], -1)

    def Q(self, nets, x, u):
        return nets["Q"](torch.cat([x, u], -1)).squeeze(-1)

    def train(self, batch):
        x, x_2, u = self.inputs(batch.obs), self.inputs(batch.obs_next), torch.as_tensor(batch.act, dtype=torch.float32)
        with torch.no_grad():  # episodes only end by their length, so every value counts
            q_2 = self.Q(self.target, x_2, self.target["pi"](x_2))
            target = (torch.as_tensor(batch.rew, dtype=torch.float32) + GAMMA * q_2).clamp(-1 / (1 - GAMMA), 0)
        Q_loss = (target - self.Q(self.main, x, u)).square().mean()
        pi = self.main["pi"](x)
        pi_loss = -self.Q(self.main, x, pi).mean() + 1.0 * pi.square().mean()
        Q_grad = torch.autograd.grad(Q_loss, list(self.main["Q"].parameters()))
        pi_grad = torch.autograd.grad(pi_loss, list(self.main["pi"].parameters()))
        for name, adam, grads in (("Q", self.Q_adam, Q_grad), ("pi", self.pi_adam, pi_grad)):
            for param, grad in zip(self.main[name].parameters(), grads):
                param.grad = grad
            adam.step()
        with torch.no_grad():
            for t, m in zip(self.target.parameters(), self.main.parameters()):
                t.copy_(POLYAK * t + (1 - POLYAK) * m)
        return Q_loss.item(), pi_loss.item()

def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng, agent = np.random.default_rng(seed), DDPG()
    buffer = HERReplayBuffer(3000, reward_fn, horizon=HORIZON, future_k=4.0, random_seed=seed)

    def view(state, goal):
        return Batch(observation=state.astype(np.float32), achieved_goal=state[:2].astype(np.float32), desired_goal=goal.astype(np.float32))

    def episode():
        state, goal, seen = np.zeros(4), rng.uniform(-1, 1, 2), []
        for t in range(HORIZON):
            obs = view(state, goal)
            with torch.no_grad():
                u = agent.main["pi"](agent.inputs(Batch.stack([obs])))[0].numpy()
            u = rng.uniform(-1, 1, 2) if rng.random() < 0.3 else np.clip(u + 0.2 * rng.normal(size=2), -1, 1)
            velocity = 0.7 * state[2:] + 0.2 * u
            state = np.concatenate([state[:2] + velocity, velocity])
            after = view(state, goal)
            buffer.add(Batch(obs=obs, act=u.astype(np.float32), rew=float(reward_fn(after.achieved_goal, after.desired_goal)),
                             terminated=False, truncated=t == HORIZON - 1, obs_next=after))
            seen.append(obs)
        rows = Batch.stack(seen)
        agent.o_stats.update(rows.observation)
        agent.g_stats.update(np.concatenate([rows.desired_goal, rows.achieved_goal]))

    def draw():
        for _ in range(20 if len(buffer) == 0 else 2):
            episode()
        return (buffer.sample(96)[0],)

    return agent.train, draw
