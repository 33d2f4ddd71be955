"""Decision-transformer-like sequences: returns to go, windows, torch tensors."""
from __future__ import annotations

from collections.abc import Generator

import torch
from torch import Tensor

from typedbatch import Batch, BatchRecord, extend, validate


class Steps(BatchRecord):
    obs: Tensor
    act: Tensor
    rew: Tensor
    done: Tensor


class WithGo(Steps):
    rtg: Tensor
    timestep: Tensor


class Window(BatchRecord):
    obs: Tensor
    act: Tensor
    rtg: Tensor
    mask: Tensor


def to_go(steps: Steps) -> WithGo:
    rtg = torch.zeros_like(steps.rew)
    timestep = torch.zeros(len(steps), dtype=torch.int64)
    running = torch.zeros(())
    for t in range(len(steps) - 1, -1, -1):
        running = steps.rew[t] + running * (~steps.done[t]).float()
        rtg[t] = running
    for t in range(1, len(steps)):
        timestep[t] = 0 if bool(steps.done[t - 1]) else timestep[t - 1] + 1
    return extend(steps, WithGo, rtg=rtg, timestep=timestep)


def windows(steps: WithGo, length: int) -> Generator[Window, None, int]:
    count = 0
    for end in range(length, len(steps) + 1, length):
        part = steps[end - length : end]
        mask = part.timestep >= part.timestep[0]
        yield Window(obs=part.obs[None], act=part.act[None], rtg=part.rtg[None], mask=mask[None])
        count += 1
    return count


def windows_of_plain(data: Batch) -> list[Window]:
    return list(windows(data, 4))  # E: user-unchecked


def windows_too_early(steps: Steps) -> list[Window]:
    return list(windows(steps, 4))  # E: user-wrong-stage


def maskless(part: WithGo) -> Window:
    return Window(obs=part.obs, act=part.act, rtg=part.rtg)  # E: user-missing


def weighted_loss(batch: Window, prediction: Tensor) -> Tensor:
    error = (prediction - batch.act).abs()
    return (error * batch.mask).sum() / batch.mask.sum()


def gather(n: int) -> Batch:
    data = Batch()
    data.obs = torch.randn(n, 2)
    data.act = data.obs.sum(1)
    data.rew = torch.ones(n)
    data.done = torch.arange(n) % 6 == 5
    data.meta_data = Batch(env="toy", rates={"keep": 0.9})
    return data


def describe(data: Batch) -> Batch:
    out = Batch(env=data.meta_data.env)
    out.ends = data.done.nonzero().squeeze(-1)
    out.lengths = torch.diff(out.ends, prepend=torch.tensor([-1]))
    out.keep = data.meta_data.rates.keep
    return out


def main() -> None:
    data = gather(24)
    about = describe(data)
    print(about.env, about.lengths.tolist(), about.keep)
    del data.meta_data
    ready = to_go(validate(data, Steps))
    batch = Window.cat(list(windows(ready, 4)))
    print(batch.obs.shape, batch.mask.float().mean().item())
    for mb in batch.split(3):
        mb.rtg = mb.rtg / 6
        print(round(weighted_loss(mb, torch.zeros(mb.act.shape)).item(), 2) > 0, mb.rtg.max().item() <= 1)


if __name__ == "__main__":
    main()
