"""Advantage estimators chosen by an enum, a string, and the shape of the request."""

from __future__ import annotations

from enum import Enum
from typing import Literal

import numpy as np

from typedbatch import Batch


class Estimator(Enum):
    MONTE_CARLO = "mc"
    TD = "td"
    GAE = "gae"


Scaling = Literal["none", "std", "rank"]


def fake_rollout(n: int, seed: int) -> Batch:
    rng = np.random.default_rng(seed)
    return Batch(rew=rng.normal(size=n), v_s=rng.normal(size=n), end=np.arange(n) % 7 == 6)


def backwards(x: np.ndarray, keep: np.ndarray, factor: float) -> np.ndarray:
    out = np.zeros_like(x)
    last = 0.0
    for t in reversed(range(len(x))):
        last = x[t] + factor * last * keep[t]
        out[t] = last
    return out


def estimate(rollout: Batch, estimator: Estimator, scaling: Scaling, gamma: float = 0.95) -> Batch:
    batch = Batch(rew=rollout["rew"], v_s=rollout["v_s"], keep=1.0 - rollout["end"])
    #! misspelt-item: batch = Batch(rew=rollout["rew"], v_s=rollout["v_s"], keep=1.0 - rollout["done"])
    match estimator:
        case Estimator.MONTE_CARLO:
            batch.returns = backwards(batch.rew, batch.keep, gamma)
            batch.adv = batch.returns - batch.v_s
        case Estimator.TD:
            batch.v_next = np.append(batch.v_s[1:], 0.0) * batch.keep
            batch.adv = batch.rew + gamma * batch.v_next - batch.v_s
        case Estimator.GAE:
            batch.v_next = np.append(batch.v_s[1:], 0.0) * batch.keep
            delta = batch.rew + gamma * batch.v_next - batch.v_s
            #! misspelt-read: delta = batch.rew + gamma * batch.vnext - batch.v_s
            batch.adv = backwards(delta, batch.keep, 0.9 * gamma)

    match scaling:
        case "std":
            batch.scale = batch.adv.std()
            #! misspelt-read: batch.scale = batch.advantage.std()
            batch.adv = batch.adv / batch.scale
        case "rank":
            batch.rank = batch.adv.argsort().argsort()
            batch.adv = batch.rank / (len(batch) - 1) - 0.5
            #! misspelt-read: batch.adv = batch.ranks / (len(batch) - 1) - 0.5
        case _:
            pass

    if estimator is Estimator.MONTE_CARLO:
        batch.error = batch.returns - batch.adv
    else:
        batch.error = batch.v_next - batch.adv
        #! branch-field: batch.error = batch.returns - batch.adv
    return batch


def describe(request: object) -> str:
    match request:
        case {"estimator": str(name), "scaling": ("none" | "std" | "rank") as scaling}:
            batch = estimate(fake_rollout(21, 0), Estimator(name), scaling)
            result = Batch(adv=batch["adv"], error=batch["error"])
            #! misspelt-keyword: result = Batch(advs=batch["adv"], error=batch["error"])
            result.mean = result.adv.mean()
        case (str(name), int(n)):
            result = Batch(adv=estimate(fake_rollout(n, 1), Estimator(name), "none")["adv"])
            result.mean = float(np.median(result.adv))
        case _:
            return "?"
    return f"{len(result.adv)} {float(result.mean):.4f}"
    #! later-stage: return f"{len(result.adv)} {float(result.mean):.4f} {result.error.mean():.3f}"


def main() -> None:
    for estimator in Estimator:
        for scaling in ("none", "std", "rank"):
            print(describe({"estimator": estimator.value, "scaling": scaling}))
    print(describe(("gae", 14)), describe(3))


if __name__ == "__main__":
    main()
