"""DQN after Ape-X: a worker with a network of its own collects, and loads the learner's weights before each collection."""
# wrong: """The weights for the worker are copied once at the start, so it loads the initial ones again each time: it never improves."""
# The weights that are sent to rollout workers are stale: RLlib's `sync_weights` forgotten or of an old reference (no single source).
from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

GAMMA, TAU, LEARNING_RATE = 0.99, 0.02, 3e-3


def q_network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


class Worker:
    """Acts with weights that it is sent."""

    def __init__(self, eps: np.ndarray, seed: int) -> None:
        self.net, self.eps, self.rng = q_network(), eps, np.random.default_rng(seed)

    def set_weights(self, weights: dict[str, Tensor]) -> None:
        self.net.load_state_dict(weights)

    def act(self, batch: ObsBatch) -> ActBatch:
        best = self.net(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        random = self.rng.random(len(best)) < self.eps[: len(best)]
        return ActBatch(act=np.where(random, self.rng.integers(0, 2, len(best)), best))


def cpu_copy(net: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in net.state_dict().items()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    net, target = q_network(), q_network()
    target.load_state_dict(net.state_dict())
    optim = torch.optim.Adam(net.parameters(), LEARNING_RATE)
    worker = Worker(np.array([0.05, 0.1, 0.2, 0.4]), seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4), worker.act)
    collector.reset(seed=seed)
    buffer = VectorReplayBuffer[RolloutBatch](8_000, 4, random_seed=seed)
    # wrong, too: weights = cpu_copy(net)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        weights = cpu_copy(net)
        # wrong: without this line
        worker.set_weights(weights)
        collector.collect(buffer, n_step=128)
        return (buffer.sample(1024, into=RolloutBatch[Tensor], dtype=torch.float32)[0],)

    def update(batch: RolloutBatch[Tensor]) -> dict[str, float]:
        losses = []
        for part in batch.split(64, rng=torch.default_generator):
            with torch.no_grad():
                y = part.rew + GAMMA * (~part.terminated).float() * target(part.obs_next).amax(-1)
            q = net(part.obs).gather(-1, part.act[:, None]).squeeze(-1)
            loss = F.smooth_l1_loss(q, y)
            optim.zero_grad()
            loss.backward()
            optim.step()
            losses.append(loss.item())
            with torch.no_grad():
                for slow, fast in zip(target.parameters(), net.parameters()):
                    slow.lerp_(fast, TAU)
        return {"loss": float(np.mean(losses))}

    return update, draw
