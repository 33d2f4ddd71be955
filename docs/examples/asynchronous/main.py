"""PPO of games in several turns, in two processes: ``python docs/examples/asynchronous/main.py [seed] [steps]``.

A third argument ``packed`` lets the losses read games end to end, without padding.
"""

from __future__ import annotations

import multiprocessing
import sys

import torch

from learner import Learner
from link import Link, OtherSideEndedError
from records import LAG, Played
from sampler import run
from typedbatch import validate


def main(seed: int = 0, steps: int = 60, *, packed: bool = False) -> Learner:
    """Train a policy with games that another process plays, and return what has learned."""
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe()
    sampler = context.Process(target=run, args=(theirs, ours, seed + 1), daemon=True)
    sampler.start()
    theirs.close()  # While it is open here, the end of the sampler is not seen.
    torch.set_num_threads(1)
    torch.manual_seed(seed)  # pyright: ignore[reportUnknownMemberType]  # torch does not say what it takes
    link, learner = Link(ours, "sampler"), Learner()
    try:
        train(link, learner, steps, packed=packed)
    except OtherSideEndedError as error:
        sampler.join()
        error.add_note(f"exit code of the sampler: {sampler.exitcode}")
        raise
    link.put(None)
    sampler.join()
    return learner


def train(link: Link, learner: Learner, steps: int, *, packed: bool) -> None:
    """Send weights and learn from games alternately, and print how well the policy plays."""
    for step in range(1, steps + 1):
        if step == 1 or step <= steps - LAG:  # The weights of this step play the games of a later one.
            weights = {name: tensor.numpy().copy() for name, tensor in learner.policy.state_dict().items()}
            link.put((step, weights))
        played = validate(link.get().to_torch(), Played, level="values")
        batch = learner.learn(played, packed=packed)
        if step % 10 == 0:
            found = (batch.turn_rewards > 0).any(1).float().mean()
            print(f"step {step}, mean reward {batch.rewards.mean():.2f}, {found:.0%} found")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:] if word != "packed"), packed="packed" in sys.argv)
