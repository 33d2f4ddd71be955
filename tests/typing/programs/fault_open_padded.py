"""Episodes to padded tensors: torch, arithmetic on whole batches, contextlib."""
from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor

from typedbatch import Batch


class Tracker:
    """Exponential moving averages of whatever is given."""

    def __init__(self, decay: float = 0.9) -> None:
        self.decay = decay
        self.average: Batch | None = None

    def update(self, values: Batch) -> Batch:
        if self.average is None:
            self.average = values
        else:
            self.average = self.average * self.decay + values * (1 - self.decay)
        return self.average

    def __getitem__(self, name: str) -> float:
        if self.average is None:
            return 0.0
        return float(self.average[name])


@contextmanager
def scaled(batch: Batch, factor: float) -> Generator[Batch, None, None]:
    old = batch.rew
    batch.rew = batch.rew * factor
    try:
        yield batch
    finally:
        batch.rew = old


def pad(episodes: list[Batch]) -> Batch:
    longest = max(len(e) for e in episodes)
    padded: list[Batch] = []
    for e in episodes:
        missing = longest - len(e)
        filler = Batch.empty(e[:1]) if missing else None
        parts = [e, *([filler] * missing if filler is not None else [])]
        whole = Batch.cat(parts)
        whole.mask = torch.arange(longest) < len(e)
        padded.append(whole)
    return Batch.stack(padded)


def advantage(batch: Batch, gamma: float) -> Batch:
    n, length = batch.rew.shape
    batch.adv = torch.zeros(n, length)
    running = torch.zeros(n)
    for t in reversed(range(length)):
        running = (batch.rew[:, t] + gamma * running) * batch.mask[:, t]
        batch.adv[:, t] = running
    batch.adv -= batch.adv[batch.mask].mean()
    batch.adv *= batch.mask
    return batch


def loss(batch: Batch, weights: Tensor) -> Tensor:
    logp = (batch.obs @ weights).log_softmax(-1).gather(-1, batch.act[..., None]).squeeze(-1)
    total: Tensor = -(logp * batch.adv).sum() / batch.mask.sum()
    return total


def main() -> None:
    generator = torch.Generator().manual_seed(0)
    episodes: list[Batch] = []
    for length in (3, 5, 2):
        e = Batch(obs=torch.randn(length, 2, generator=generator))
        e.act = torch.randint(0, 2, (length,), generator=generator)
        e.rew = e.obs.sum(-1)
        e.info = Batch(step=torch.arange(length))
        episodes.append(e)
    batch = pad(episodes)
    print(batch.obs.shape, batch.mask.sum(1), batch.info.step[2])
    weights = torch.zeros(2, 2, requires_grad=True)
    tracker = Tracker()
    for factor in (1.0, 0.5, 0.1):
        with scaled(batch, factor) as changed:
            value = loss(advantage(changed, 0.9), weights)
            (grad,) = torch.autograd.grad(value, [weights])
        weights.data.sub_(grad)
        now = tracker.update(Batch(loss=value.detach(), norm=grad.pow(2).sum()))
        print(round(tracker["loss"], 3), now.norm.item() > 0)
    flat = batch.apply_values_transform(lambda leaf: leaf.flatten(0, 1))
    print(flat.obs.shape, len(flat[flat.mask]), flat.info.step.shape)
    batch.to_numpy_()
    print(batch.obs.dtype, batch.info.step.max())
    batch.obs = torch.as_tensor(batch.obs)
    batch.to_numpy_()
    print(batch.obs.astype("f8").sum() > -99)  # E: narrowed-write [only: zuban]


if __name__ == "__main__":
    main()
