"""Behaviour cloning of a hand-written expert on CartPole."""
# wrong: """The network ends with a softmax, and cross_entropy applies another one, so the loss never gets below 0.31."""
# Source: RLMutation, Policy Activation Change (PAC), arXiv:2301.05651; DRLinter has the like, arXiv:2101.00135.
from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, ObsBatch, RolloutBatch, convert
from typedbatch.training import Collector

torch.set_num_threads(1)


def expert(batch: ObsBatch) -> ActBatch:
    """Pushes the cart to where the pole leans."""
    return ActBatch(act=(batch.obs[:, 2] + 0.5 * batch.obs[:, 3] > 0).astype(np.int64))


class Cloner(nn.Module):
    def __init__(self, hidden: int = 64) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, hidden),
            nn.ReLU(),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, 2),
            # wrong, too: nn.Softmax(dim=-1),
        )

    def forward(self, obs: Tensor) -> Tensor:
        return self.layers(obs)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    cloner = Cloner()
    optim = torch.optim.AdamW(cloner.parameters(), lr=3e-3, weight_decay=1e-4)
    generator = torch.Generator().manual_seed(seed)
    collector = Collector(gym.make_vec("CartPole-v1", 4), expert)
    collector.reset(seed=seed)

    def draw() -> tuple[RolloutBatch[Tensor]]:
        return (convert(collector.rollout(256), RolloutBatch[Tensor], dtype=torch.float32),)

    def update(batch: RolloutBatch[Tensor]) -> dict[str, float]:
        losses, hits = [], 0
        for _ in range(2):
            for part in batch.split(64, rng=generator):
                scores = cloner(part.obs)
                loss = nn.functional.cross_entropy(scores, part.act)
                optim.zero_grad()
                loss.backward()
                optim.step()
                losses.append(loss.item())
                hits += int((scores.argmax(-1) == part.act).sum())
        return {"loss": float(np.mean(losses)), "accuracy": hits / (2 * len(batch))}

    return update, draw
