"""The loop."""

from __future__ import annotations

import torch
from torch import Tensor

from ppo_trainer import algorithm, config
from ppo_trainer.collector import Collector
from ppo_trainer.nets import ActorCritic
from typedbatch import LogpOldBatch, convert


class Trainer:
    def __init__(self) -> None:
        torch.manual_seed(int(config.run.seed))
        self.net = ActorCritic()
        self.collector = Collector(self.net, int(config.run.seed))
        self.optim = torch.optim.Adam(self.net.parameters(), lr=1e-2)

    def fit(self) -> list[float]:
        history = []
        iterations = int(config.run.iterations)
        #! misspelt-read: iterations = int(config.run.iteration)
        for _ in range(iterations):
            rollout = self.collector.collect(int(config.run.steps))
            processed = algorithm.process(rollout, self.net)
            batch = convert(processed, LogpOldBatch[Tensor])
            #! wrong-stage: batch = convert(rollout, LogpOldBatch[Tensor])
            for _ in range(int(config.algo.epochs)):
                for minibatch in batch.split(int(config.algo.minibatch)):
                    loss = algorithm.loss(minibatch, self.net)
                    self.optim.zero_grad()
                    loss.backward()
                    self.optim.step()
            history.append(float(rollout.rew.mean()))
        return history
