"""Double dueling DQN in Tianshou's structure: prioritized n-step replay of CartPole, importance weights, hard target sync."""
from copy import deepcopy

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from typedbatch import ActBatch
from typedbatch.buffers import PrioritizedVectorReplayBuffer
from typedbatch.training import Collector, add_nstep

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(4, 64), nn.ReLU())
        self.q, self.v = nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, obs):
        h = self.trunk(torch.as_tensor(obs, dtype=torch.float32))
        q = self.q(h)
        return q - q.mean(-1, keepdim=True) + self.v(h)

class DQNPolicy:
    def __init__(self, model, optim, buffer, seed, discount_factor=0.97, estimation_step=3, target_update_freq=2):
        self.model, self.optim, self.buffer = model, optim, buffer
        self.model_old = deepcopy(model).eval()
        self._gamma, self._n_step, self._freq, self._iter = discount_factor, estimation_step, target_update_freq, 0
        self.eps, self.rng = 0.3, np.random.default_rng(seed)

    def forward(self, batch):
        act = self.model(batch.obs).argmax(1).numpy()
        explore = self.rng.random(len(act)) < self.eps
        return ActBatch(act=np.where(explore, self.rng.integers(2, size=len(act)), act))

    def _target_q(self, obs_next):
        best = self.model(obs_next).argmax(1)
        return self.model_old(obs_next)[np.arange(len(best)), best]

    def process_fn(self, batch, indices):
        return add_nstep(batch, self.buffer, indices, self._target_q, gamma=self._gamma, n=self._n_step)

    def post_process_fn(self, batch, indices, td_error):
        self.buffer.update_weight(indices, td_error.detach().abs() + 1e-6)

    def learn(self, batch):
        if self._iter % self._freq == 0:
            self.model_old.load_state_dict(self.model.state_dict())
        self.optim.zero_grad()
        weight = torch.as_tensor(batch.weight, dtype=torch.float32)
        q = self.model(batch.obs)[np.arange(len(batch.act)), batch.act]
        td_error = torch.as_tensor(batch.returns, dtype=torch.float32) - q
        loss = (td_error.pow(2) * weight).mean()
        loss.backward()
        self.optim.step()
        self._iter += 1
        return loss, td_error

    def update(self, batch, indices):
        loss, td_error = self.learn(self.process_fn(batch, indices))
        self.post_process_fn(batch, indices, td_error)
        return {"loss": loss.item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    buffer = PrioritizedVectorReplayBuffer(4000, 4, alpha=0.6, beta=0.4, random_seed=seed)
    net = Net()
    policy = DQNPolicy(net, torch.optim.Adam(net.parameters(), lr=1e-3), buffer, seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4), policy.forward)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=200)

    def draw():
        collector.collect(buffer, n_step=16)
        return buffer.sample(64)

    return policy.update, draw
