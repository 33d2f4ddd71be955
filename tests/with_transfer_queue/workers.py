"""Actors of the tests: producers, a reward, and consumers of a stream."""

from __future__ import annotations

import os
from typing import Any

import ray
import torch
from jaxtyping import Float
from torch import Tensor

from typedbatch import extend, objects
from typedbatch.bridges.transfer_queue import KEY, Stream
from typedbatch.posttraining import Prompts, Rollouts, Scored


class Answered(Scored):
    """Rollouts with a number that is learned from."""

    target: Float[Tensor, "N"]


STAGES = [Prompts, Rollouts, Scored, Answered]
GROUP = 4


def make_stream(name: str) -> Stream:
    return Stream(name, STAGES, group="uid", pad_token_id=99)


def prompts(count: int, first: int = 0, width: int = 3) -> Prompts:
    """Groups of equal prompts."""
    numbers = torch.arange(first, first + count).repeat_interleave(GROUP)
    ids = numbers[:, None].repeat(1, width)
    uid = objects(f"p{number}" for number in numbers.tolist())
    batch = Prompts(prompt_ids=ids, prompt_mask=torch.ones_like(ids).bool(), uid=uid)
    batch.meta["step"] = 3
    return batch


def sampled(batch: Prompts, width: int) -> Rollouts:
    ids = batch.prompt_ids[:, :1].repeat(1, width)
    mask = torch.ones_like(ids).bool()
    return extend(batch, Rollouts, response_ids=ids, response_mask=mask, loss_mask=mask)


class Producer:
    """Samples groups, row by row in an order of its own."""

    def __init__(self, name: str) -> None:
        self.stream = make_stream(name)

    def produce(self, first: int, count: int, width: int) -> int:
        batch = self.stream.put(prompts(count, first))
        rollouts = sampled(batch, width)
        for row in torch.randperm(len(rollouts)).tolist():
            self.stream.put(rollouts[row : row + 1])
        return len(rollouts)

    def die_after(self, first: int, count: int, rows: int) -> None:
        batch = self.stream.put(prompts(count, first))
        rollouts = sampled(batch, 2)
        for row in range(rows):
            self.stream.put(rollouts[row : row + 1])
        os._exit(1)


class Judge:
    """Scores whatever is sampled."""

    def __init__(self, name: str) -> None:
        self.stream = make_stream(name)

    def judge(self, total: int) -> int:
        count = 0
        for batch in self.stream.loader(Rollouts, 4, task="judge", total=total):
            self.stream.put(extend(batch, Scored, rewards=batch.response_ids[:, 0].float()))
            count += len(batch)
        return count


class Consumer:
    """Reads whole groups."""

    def __init__(self, name: str) -> None:
        self.stream = make_stream(name)

    def consume(self, total: int) -> list[tuple[list[str], list[str], list[float]]]:
        batches = self.stream.loader(Scored, 2 * GROUP, task="update", total=total, groups=True)
        return [(batch.uid.tolist(), batch[KEY].tolist(), batch.rewards.tolist()) for batch in batches]


def actors(cls: type, name: str, count: int) -> list[Any]:
    made = ray.remote(num_cpus=0)(cls)
    return [made.remote(name) for _ in range(count)]
