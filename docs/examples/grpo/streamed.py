"""GRPO of four actors on Ray, with a stream between them: ``python docs/examples/grpo/streamed.py [seed] [steps]``."""

from __future__ import annotations

import os
import sys
from typing import TypeAlias

import ray
import torch
from torch import Tensor

from advantages import GROUP
from learning import EPOCHS, add_gradients, make_optimizer, prepare, step
from model import Model
from records import Questions, Sampled
from rewards import grade
from rollouts import sample
from tool import PAD, draw_questions
from typedbatch.bridges.transfer_queue import Stream, open_queue

PROMPTS, LONGEST = 16, (2, 3)
ROWS = PROMPTS * GROUP

Weights: TypeAlias = dict[str, Tensor]


def open_stream() -> Stream:
    """Return the stream, which each process opens for itself."""
    return Stream("rollouts", [Questions, Sampled], group="uid", pad_token_id=PAD)


class Producer:
    """A process that samples with the weights that it is given."""

    def __init__(self, rank: int, seed: int) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(2 * seed + rank)  # pyright: ignore[reportUnknownMemberType]  # torch does not say what it takes
        self.rank, self.model, self.stream = rank, Model(), open_stream()

    @ray.method  # pyright: ignore[reportUnknownMemberType]  # ray does not say what it takes
    def produce(self, weights: Weights, number: int) -> None:
        """Put prompts into the stream, and then a response to each."""
        self.model.load_state_dict(weights)
        questions = self.stream.put(draw_questions(PROMPTS, LONGEST[self.rank], GROUP, number, self.rank))
        self.stream.put(sample(self.model, questions))


class Consumer:
    """A process that grades whole groups and computes gradients."""

    def __init__(self) -> None:
        torch.set_num_threads(1)
        self.model, self.stream = Model(), open_stream()

    @ray.method  # pyright: ignore[reportUnknownMemberType]  # ray does not say what it takes
    def receive(self, weights: Weights, number: int) -> float:
        """Take half of the rows of a step, and return their mean reward."""
        self.model.load_state_dict(weights)
        sampled = self.stream.get(Sampled, ROWS, task="learn", groups=True, at_least={"step": number}, timeout=60)
        self.stream.clear(sampled)
        self.batch = prepare(self.model, grade(sampled))
        return self.batch.rewards.mean().item()

    @ray.method  # pyright: ignore[reportUnknownMemberType]  # ray does not say what it takes
    def gradients(self, weights: Weights) -> Weights:
        """Return the gradients of these rows, as a part of those of both consumers."""
        self.model.load_state_dict(weights)
        self.model.zero_grad()
        add_gradients(self.model, self.batch, total=2 * ROWS, packed=True)
        return {name: weight.grad for name, weight in self.model.named_parameters() if weight.grad is not None}


def main(seed: int = 0, steps: int = 35) -> None:
    """Start the actors, add up their gradients, and publish the weights."""
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]  # torch does not say what it takes
    model = Model()
    optimizer = make_optimizer(model)
    with open_queue():
        producers = [ray.remote(Producer).options(num_cpus=0).remote(rank, seed) for rank in range(2)]
        consumers = [ray.remote(Consumer).options(num_cpus=0).remote() for _ in range(2)]
        for number in range(1, steps + 1):
            weights = ray.put(model.state_dict())  # pyright: ignore[reportUnknownMemberType]  # ray does not say what it takes
            made = [producer.produce.remote(weights, number) for producer in producers]
            rewards = ray.get([consumer.receive.remote(weights, number) for consumer in consumers])
            ray.get(made)
            for _ in range(EPOCHS):
                weights = ray.put(model.state_dict())  # pyright: ignore[reportUnknownMemberType]  # ray does not say what it takes
                parts = ray.get([consumer.gradients.remote(weights) for consumer in consumers])
                for name, weight in model.named_parameters():
                    weight.grad = torch.stack([part[name] for part in parts]).sum(0)
                step(model, optimizer)
            model.version += 1
            if number % 5 == 0:
                print(f"step {number}, mean reward {sum(rewards) / 2:.2f}", flush=True)


if __name__ == "__main__":
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    main(*map(int, sys.argv[1:]))
