"""Asynchronous collection: workers put open batches into a queue, the learner validates them."""
from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import torch
from torch import Tensor

from typedbatch import Batch, BatchProtocol, BatchRecord, validate


class Trajectory(BatchRecord):
    obs: Tensor
    act: Tensor
    rew: Tensor
    version: Tensor


class ReadsRewards(BatchProtocol, Protocol):
    @property
    def rew(self) -> Tensor: ...
    @property
    def version(self) -> Tensor: ...


class Worker:
    def __init__(self, number: int, queue: asyncio.Queue[Batch]) -> None:
        self.number = number
        self.queue = queue
        self.status = Batch(sent=0, last={"version": -1})

    async def run(self, rounds: int) -> None:
        for version in range(rounds):
            await asyncio.sleep(0)
            batch = Batch(obs=torch.randn(6, 2), act=torch.randint(0, 2, (6,)))
            batch.rew = batch.obs[:, 0] + self.number
            batch.version = torch.full((6,), version)
            batch.info = Batch(worker=torch.full((6,), self.number))
            self.status.sent += 1
            self.status.last.version = version
            await self.queue.put(batch)


async def receive(queue: asyncio.Queue[Batch], count: int) -> AsyncIterator[Trajectory]:
    for _ in range(count):
        batch = await queue.get()
        batch.info.received = torch.ones(len(batch))
        yield validate(batch, Trajectory)


async def receive_raw(queue: asyncio.Queue[Batch]) -> AsyncIterator[Trajectory]:
    yield await queue.get()  # E: user-unchecked


async def one(queue: asyncio.Queue[Batch]) -> Trajectory:
    batch = await queue.get()
    batch.rew *= 2
    batch.info.received = torch.zeros(len(batch))
    return validate(batch, Trajectory)


def staleness(batch: ReadsRewards, now: int) -> float:
    return (now - batch.version).float().mean().item()


def reward(batch: ReadsRewards) -> float:
    return batch.rew.mean().item()


def age(batch: ReadsRewards) -> float:
    return batch.step.float().mean().item()  # E: user-misspelt


async def main() -> None:
    queue: asyncio.Queue[Batch] = asyncio.Queue()
    workers = [Worker(number, queue) for number in range(3)]
    tasks = [asyncio.create_task(worker.run(4)) for worker in workers]
    received: list[Trajectory] = []
    async for trajectory in receive(queue, 11):
        received.append(trajectory)
        print(round(staleness(trajectory, 4), 1), end=" ")
    received.append(await one(queue))
    await asyncio.gather(*tasks)
    joined = Trajectory.cat(received)
    print(len(joined), reward(joined) > 0, joined[joined.version == 3].rew.shape)
    for worker in workers:
        print(worker.number, worker.status.sent, worker.status.last.version)
    for mb in joined.split(40):
        mb.rew = (mb.rew - mb.rew.mean()) / mb.rew.std()
        print(len(mb), abs(reward(mb)) < 1e-4)


if __name__ == "__main__":
    asyncio.run(main())
