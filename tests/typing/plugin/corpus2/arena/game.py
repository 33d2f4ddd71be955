"""Repeated rock, paper, scissors, two seats at a time."""

from __future__ import annotations

import numpy as np

from typedbatch import Batch, stack

PAYOFF = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], float)
SEATS = ("home", "away")


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return np.asarray(e / e.sum())


def play(home: np.ndarray, away: np.ndarray, rounds: int, rng: np.random.Generator, record: bool = True) -> dict[str, Batch]:
    logs: dict[str, list[Batch]] = {s: [] for s in SEATS}
    score = Batch(home=0.0, away=0.0)
    for t in range(rounds):
        moves = Batch()
        for seat, logits in zip(SEATS, (home, away), strict=True):
            moves[seat] = int(rng.choice(3, p=softmax(logits)))
        pay = PAYOFF[moves["home"], moves["away"]]
        score.home += pay
        score.away -= pay
        #! misspelt-read: score.guest -= pay
        for seat, sign in (("home", 1), ("away", -1)):
            step = Batch(act=moves[seat], rew=sign * pay, t=t)
            #! misspelt-item: step = Batch(act=moves[seat + "_move"], rew=sign * pay, t=t)
            if record:
                step.other = moves["away" if seat == "home" else "home"]
            logs[seat].append(step)
    out = {seat: stack(rows) for seat, rows in logs.items()}
    for seat in SEATS:
        out[seat].won = np.full(rounds, bool(score[seat] > 0))
    out["score"] = score
    return out
