"""Rainbow of small things that people do to batches, torch: the configuration is a batch, too."""
from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from typing_extensions import override

from typedbatch import Batch, cat, stack


def default_config() -> Batch:
    config = Batch(gamma=0.9, lr=0.05)
    config.net = Batch(hidden=8, layers=2)
    config.schedule = {"eps": {"start": 1.0, "end": 0.1}, "steps": 40}
    return config


class Agent(nn.Module):
    def __init__(self, config: Batch) -> None:
        super().__init__()
        self.config = config
        layers: list[nn.Module] = []
        size = 3
        for _ in range(int(config.net.layers)):
            layers += [nn.Linear(size, int(config.net.hidden)), nn.Tanh()]
            size = int(config.net.hidden)
        self.body = nn.Sequential(*layers, nn.Linear(size, 2))
        self.counters = Batch(steps=0, updates=0)
        self.last: Batch = Batch()

    def eps(self) -> float:
        s = self.config.schedule
        share = min(1.0, float(self.counters.steps / s.steps))
        return float(s.eps.start + share * (s.eps.end - s.eps.start))

    @override
    def forward(self, batch: Batch) -> Batch:
        logits: Tensor = self.body(batch.obs)
        out = Batch(logits=logits, act=logits.argmax(-1))
        explore = torch.rand(len(batch)) < self.eps()
        out.act[explore] = torch.randint(0, 2, (int(explore.sum()),))
        out.explore = explore
        self.counters.steps += len(batch)
        return out

    def loss(self, batch: Batch) -> Tensor:
        q: Tensor = self.body(batch.obs)
        with torch.no_grad():
            after: Tensor = self.body(batch.obs_next)
        chosen = q.gather(1, batch.act[:, None]).squeeze(1)
        batch.target = batch.rew + float(self.config.gamma) * after.max(1).values * (~batch.done)
        batch.td = (chosen - batch.target).detach()
        self.last = batch
        loss: Tensor = (chosen - batch.target).pow(2).mean()
        return loss


def interact(agent: Agent, n: int) -> Iterator[Batch]:
    obs = Batch(obs=torch.randn(n, 3))
    while True:
        out: Batch = agent(obs)
        step = Batch(obs, act=out.act, explore=out.explore)
        step.obs_next = obs.obs * 0.9 + 0.1 * out.act[:, None]
        step.rew = step.obs_next[:, 0]
        step.done = step.rew.abs() > 2
        obs.obs = step.obs_next.clone()
        yield step


def main() -> None:
    config = default_config()
    config.lr = config.lr * 2
    config.net.hidden = 16
    agent = Agent(config)
    steps = list(itertools.islice(interact(agent, 5), 12))
    data = cat(steps)
    print(data.obs.shape, data.explore.float().mean().item() <= 1, stack(steps).rew.shape)
    for mb in data.split(20):
        loss = agent.loss(mb)
        parameters = list(agent.body.parameters())
        for p, g in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            p.data.sub_(float(config.lr) * g)
        agent.counters.updates += 1
        print(agent.last.td.abs().mean().item() >= 0, agent.counters.updates, "td" in mb, "td" in data)
    priorities = sorted(data.split(15), key=lambda part: float(part.rew.mean()), reverse=True)
    print(priorities[0].rew.mean() >= priorities[-1].rew.mean(), agent.eps() < 1)
    config.net.update(hidden=4)
    config.note = "last"
    print(config.net.hidden, config.note.upper())
    if config.schedule.steps == 40 and config.note == "last":
        config.schedule.steps = 80
    half = Batch(config)
    half.lr /= 2
    print(half.lr < config.lr, half.schedule is config.schedule, config.schedule.eps.start)


if __name__ == "__main__":
    main()
