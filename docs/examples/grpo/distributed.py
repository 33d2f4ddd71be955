"""GRPO in two processes that learn one model: ``python docs/examples/grpo/distributed.py [seed] [steps]``."""

from __future__ import annotations

import socket
import sys

import torch
import torch.distributed as dist
from torch.multiprocessing.spawn import start_processes  # pyright: ignore[reportUnknownVariableType]  # torch does not say what it takes

from advantages import GROUP
from learning import EPOCHS, add_gradients, make_optimizer, prepare, step
from model import Model
from rewards import grade
from rollouts import sample
from tool import PAD, draw_questions
from typedbatch.bridges.torch_distributed import all_gather
from typedbatch.rows import balance

RANKS, PROMPTS, LONGEST = 2, 16, (2, 4)


def free_port() -> int:
    """Return a port that nothing listens to."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


def add_up_gradients(model: Model) -> None:
    """Add up the gradients of all processes."""
    for weights in model.parameters():
        if weights.grad is not None:
            dist.all_reduce(weights.grad)  # pyright: ignore[reportUnknownMemberType]  # torch does not say what it takes


def train(rank: int, port: int, seed: int, steps: int) -> None:
    """Sample prompts of one's own, gather those of all, and learn from one's share of them."""
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=RANKS)
    torch.set_num_threads(1)
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]  # torch does not say what it takes
    model = Model()  # The same in all processes.
    optimizer = make_optimizer(model)
    torch.manual_seed(RANKS * seed + rank)  # pyright: ignore[reportUnknownMemberType]  # torch does not say what it takes
    for number in range(1, steps + 1):
        own = prepare(model, grade(sample(model, draw_questions(PROMPTS, LONGEST[rank], GROUP, number, rank))))
        batch = all_gather(own, widths="pad", pad_token_id=PAD)
        share = batch[balance(batch.response_mask.sum(1), RANKS)[rank]]
        for _ in range(EPOCHS):
            add_gradients(model, share, total=len(batch))
            add_up_gradients(model)
            step(model, optimizer)
        model.version += 1
        if rank == 0 and number % 10 == 0:
            print(f"step {number}, mean reward {batch.rewards.mean():.2f}, {batch.calls.float().mean():.2f} calls")
    # The first process has what the others meet at.
    dist.barrier()  # pyright: ignore[reportUnknownMemberType]  # torch does not say what it takes
    dist.destroy_process_group()


def main(seed: int = 0, steps: int = 60) -> None:
    """Start the processes, and wait for them."""
    # Processes of a fork server end without a shutdown of Python, in which a thread of gloo that needs it would abort.
    start_processes(train, (free_port(), seed, steps), RANKS, start_method="forkserver")  # type: ignore[no-untyped-call]  # torch has no types for it


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
