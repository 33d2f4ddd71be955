"""DAgger on CartPole: the expert labels what the learner visits; the network has batch norm and dropout."""
# wrong: """The network is set to eval() for collecting and never back: no dropout, and batch norm keeps its initial statistics."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch, extend
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector


class Labelled(RolloutBatch):
    """Transitions with the action that the expert would have chosen."""

    label: np.ndarray


class LabelledTensors(RolloutBatch[Tensor]):
    label: Tensor


def expert(obs: np.ndarray) -> np.ndarray:
    return (obs[:, 2] + 0.5 * obs[:, 3] + 0.05 * obs[:, 1] > 0).astype(np.int64)


def record(rollout: RolloutBatch, _: ActBatch) -> Labelled:
    return extend(rollout, Labelled, label=expert(rollout.obs))


class Learner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(4, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 2),
        )

    def forward(self, obs: Tensor) -> Tensor:
        return self.net(obs)

    def act(self, batch: ObsBatch) -> ActBatch:
        return ActBatch(act=self.net(torch.as_tensor(batch.obs)).argmax(-1).numpy())


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    learner = Learner()
    optim = torch.optim.AdamW(learner.parameters(), 1e-3)
    envs = gym.make_vec("CartPole-v1", 4, vectorization_mode="sync")
    data = VectorReplayBuffer[Labelled](8_000, 4, random_seed=seed)
    collector = Collector(envs, learner.act, record)
    collector.reset(seed=seed)

    def draw() -> tuple[LabelledTensors]:
        learner.eval()
        collector.collect(data, n_step=128)
        batch, _ = data.sample(512, into=LabelledTensors, dtype=torch.float32)
        return (batch,)

    def update(batch: LabelledTensors) -> dict[str, float]:
        learner.train()
        # wrong: without this line
        for part in batch.split(64, rng=torch.default_generator):
            loss = nn.functional.cross_entropy(learner(part.obs), part.label)
            optim.zero_grad()
            loss.backward()
            optim.step()
        return {"loss": loss.item()}

    return update, draw
