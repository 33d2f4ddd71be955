"""The example of several turns in two processes, beside the same with dicts in one.

The arguments ``padded`` and ``packed`` compare what both have learned after some steps; the others are what goes wrong
in the process that plays.
"""

from __future__ import annotations

import os
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "examples" / "asynchronous"))

import learner as settings
import main as program
import sampler
from game import LONGEST, NUMBERS, PAD, RIGHT, START, TURNS, hint, reward
from link import Link
from model import make_critic, make_policy

STEPS, LAG = 5, 1


def play(policy: Any) -> dict[str, Tensor]:
    """Play games, all of whose tokens are in one block, ``(N, T)``."""
    hidden = torch.randint(NUMBERS, (sampler.GAMES,))
    block: dict[str, list[Tensor]] = {name: [] for name in ("ids", "there", "own", "logp", "reward")}

    def add(token: Tensor, there: Tensor, *, own: bool, logp: Any = 0.0, earned: Any = 0.0) -> None:
        values = (torch.where(there, token, PAD), there, there & own, logp * (there & own), earned * (there & own))
        for column, value in zip(block.values(), values, strict=True):
            column.append(value)

    going = torch.ones(sampler.GAMES, dtype=torch.bool)
    add(torch.full((sampler.GAMES,), START), going, own=False)
    for _ in range(TURNS):
        guess: list[Tensor] = []
        for place in range(2):
            logits = forward(policy, torch.stack(block["ids"], 1), torch.stack(block["there"], 1))[:, -1]
            logp = logits.log_softmax(-1)
            guess.append(torch.multinomial(logp.exp(), 1)[:, 0])
            answer = hint(*guess, hidden) if place else None
            earned = 0.0 if answer is None else reward(answer)
            add(guess[-1], going, own=True, logp=logp.gather(1, guess[-1][:, None])[:, 0], earned=earned)
        assert answer is not None
        add(answer, going, own=False)
        going = going & (answer != RIGHT)
    return {name: torch.stack(columns, 1) for name, columns in block.items()}


def forward(model: Any, ids: Tensor, there: Tensor) -> Tensor:
    places = (there.long().cumsum(1) - 1).clamp(min=0)
    out: Tensor = model(input_ids=ids, attention_mask=there.long(), position_ids=places)
    return out


def of_tokens(policy: Any, critic: Any, rows: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The log-probability of each token and the value before it; the first has none."""
    logp = forward(policy, rows["ids"], rows["there"]).log_softmax(-1)[:, :-1].gather(-1, rows["ids"][:, 1:, None])
    values = forward(critic, rows["ids"], rows["there"])[:, :-1]
    return tuple(torch.cat([torch.zeros(len(logp), 1), both[..., 0]], 1) for both in (logp, values))  # type: ignore[return-value]


def advantages(rows: dict[str, Tensor], values: Tensor) -> tuple[Tensor, Tensor]:
    adv, returns = torch.zeros_like(values), torch.zeros_like(values)
    for row in range(len(values)):
        after, last = 0.0, 0.0
        for first in reversed(range(1, LONGEST, 3)):
            if rows["own"][row, first]:
                value = values[row, first].item()
                delta = rows["reward"][row, first + 1].item() + settings.GAMMA * after - value
                last, after = delta + settings.GAMMA * settings.LAMBDA * last, value
                adv[row, first : first + 2], returns[row, first : first + 2] = last, last + value
    return adv, returns


def learn(policy: Any, critic: Any, optimizer: torch.optim.Optimizer, rows: dict[str, Tensor]) -> None:
    own = rows["own"]
    with torch.no_grad():
        old_logp, values = of_tokens(policy, critic, rows)
    adv, returns = advantages(rows, values)
    adv = (adv - adv[own].mean()) / (adv[own].std() + 1e-6)
    weights = (old_logp - rows["logp"]).exp().clamp(max=settings.MAX_IS_WEIGHT)
    for _ in range(settings.EPOCHS):
        logp, values = of_tokens(policy, critic, rows)
        ratio = (logp - old_logp).exp()
        clipped = torch.min(ratio * adv, ratio.clamp(1 - settings.CLIP, 1 + settings.CLIP) * adv)
        losses = settings.VALUE_COEF * (values - returns) ** 2 - weights * clipped
        optimizer.zero_grad()
        losses[own].mean().backward()
        torch.nn.utils.clip_grad_norm_([*policy.parameters(), *critic.parameters()], 1.0)
        optimizer.step()


def twin(seed: int, steps: int) -> tuple[Any, Any]:
    """Learn as the program does, with the states of its two generators by turns."""
    torch.manual_seed(seed)
    policy, critic = make_policy(), make_critic()
    optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], settings.LEARNING_RATE)
    torch.manual_seed(seed + 1)
    player = make_policy()
    versions: list[dict[str, Tensor]] = []
    for step in range(1, steps + 1):
        versions.append({name: weights.clone() for name, weights in policy.state_dict().items()})
        player.load_state_dict(versions[max(step - 1 - LAG, 0)])
        with torch.no_grad():
            rows = play(player)
        learn(policy, critic, optimizer, rows)
    return policy, critic


def compare(*, packed: bool) -> None:
    torch.set_num_threads(1)
    ours = program.main(0, STEPS, packed=packed)
    policy, critic = twin(0, STEPS)
    rows = play(make_policy())
    with torch.no_grad():
        found, expected = of_tokens(ours.policy, ours.critic, rows), of_tokens(policy, critic, rows)
        before = of_tokens(make_policy(), make_critic(), rows)
    for ours_of, theirs_of, new_of in zip(found, expected, before, strict=True):
        apart, moved = (ours_of - theirs_of).abs().max().item(), (new_of - theirs_of).abs().max().item()
        print(f"apart {apart:.2g}, moved {moved:.2g}")
        assert apart < 1e-3 < 0.1 < moved


class Broken(Link):
    """A link on which something is wrong with the second message."""

    mode = ""
    sent = 0

    def put(self, message: Any) -> None:
        self.sent += 1
        if self.sent == 2 and self.mode == "killed":
            os.kill(os.getpid(), 9)
        if self.sent == 2 and self.mode == "raises":
            raise RuntimeError("no games today")
        if self.sent == 2 and self.mode == "floats":
            message.response_ids = message.response_ids.astype("f4")
        if self.sent == 2 and self.mode == "gap":
            message.response_mask[3, 1] = False
        if self.sent == 2 and self.mode == "stale":
            message.policy_step -= 2
        super().put(message)


def run_broken(mode: str, *arguments: Any) -> None:
    Broken.mode = mode
    sampler.Link = Broken  # type: ignore[misc]
    sampler.run(*arguments)


def killed(connection: Connection, unused: Connection, seed: int) -> None:
    run_broken("killed", connection, unused, seed)


def raises(connection: Connection, unused: Connection, seed: int) -> None:
    run_broken("raises", connection, unused, seed)


def floats(connection: Connection, unused: Connection, seed: int) -> None:
    run_broken("floats", connection, unused, seed)


def gap(connection: Connection, unused: Connection, seed: int) -> None:
    run_broken("gap", connection, unused, seed)


def stale(connection: Connection, unused: Connection, seed: int) -> None:
    run_broken("stale", connection, unused, seed)


if __name__ == "__main__":
    mode = sys.argv[1]
    if mode in ("padded", "packed"):
        compare(packed=mode == "packed")
    else:
        program.run = globals()[mode]
        program.main(0, 20)
