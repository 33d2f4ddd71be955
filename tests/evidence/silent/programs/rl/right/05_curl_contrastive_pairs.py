"""DQN on CartPole with a CURL-like auxiliary loss: a classification over all (N, N) pairs of rows, on purpose."""

from __future__ import annotations

import copy

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 32), nn.LayerNorm(32), nn.Tanh())
        self.head = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 2))
        self.bilinear = nn.Parameter(torch.eye(32))

    def forward(self, obs: Tensor) -> Tensor:
        return self.head(self.encoder(obs))


def setup(seed: int = 0, gamma: float = 0.98):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    online = Agent()
    target = copy.deepcopy(online).requires_grad_(False)
    optim = torch.optim.Adam(online.parameters(), 1e-3)

    def act(batch: ObsBatch) -> ActBatch:
        best = online(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        return ActBatch(act=np.where(rng.random(len(best)) < 0.1, rng.integers(0, 2, len(best)), best))

    buffer = VectorReplayBuffer[RolloutBatch](8_000, 4, random_seed=seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4, vectorization_mode="sync"), act)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=256, random=True)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        collector.collect(buffer, n_step=4)
        return (buffer.sample(64, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    def augment(obs: Tensor) -> Tensor:
        return obs * (1 + 0.1 * torch.randn_like(obs))

    def contrastive(obs: Tensor) -> Tensor:
        """Which row of the batch is the same observation? The others are the negatives."""
        query = online.encoder(augment(obs))
        with torch.no_grad():
            key = target.encoder(augment(obs))
        logits = query @ online.bilinear @ key.T
        logits = logits - logits.max(dim=1, keepdim=True).values.detach()
        return nn.functional.cross_entropy(logits, torch.arange(len(obs)))

    def update(batch: RolloutBatch[Tensor]) -> dict[str, float]:
        with torch.no_grad():
            best = online(batch.obs_next).argmax(-1, keepdim=True)
            q_next = target(batch.obs_next).gather(-1, best).squeeze(-1)
            goal = batch.rew + gamma * (~batch.terminated) * q_next
        q = online(batch.obs).gather(-1, batch.act[:, None]).squeeze(-1)
        td, aux = nn.functional.smooth_l1_loss(q, goal), contrastive(batch.obs)
        optim.zero_grad()
        (td + 0.1 * aux).backward()
        optim.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), online.parameters(), strict=True):
                slow.lerp_(fast, 0.01)
        return {"td": td.item(), "aux": aux.item()}

    return update, draw
