"""GRPO in one process: ``python docs/examples/grpo/main.py [seed] [steps] [packed]``."""

from __future__ import annotations

import sys

import torch

from advantages import GROUP
from learning import EPOCHS, add_gradients, make_optimizer, prepare, step
from model import Model
from rewards import grade
from rollouts import sample
from tool import draw_questions

PROMPTS, LONGEST = 32, 3


def main(seed: int = 0, steps: int = 60, *, packed: bool = False) -> None:
    """Train a model, and print how well it does."""
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]  # torch does not say what it takes
    torch.set_num_threads(1)
    model = Model()
    optimizer = make_optimizer(model)
    for number in range(1, steps + 1):
        graded = grade(sample(model, draw_questions(PROMPTS, LONGEST, GROUP, number)))
        batch = prepare(model, graded)
        for _ in range(EPOCHS):
            add_gradients(model, batch, total=len(batch), packed=packed)
            step(model, optimizer)
        model.version += 1
        if number % 10 == 0:
            calls = graded.calls.float().mean()
            print(f"step {number}, mean reward {graded.rewards.mean():.2f}, {calls:.2f} calls of the tool")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:] if word != "packed"), packed="packed" in sys.argv)
