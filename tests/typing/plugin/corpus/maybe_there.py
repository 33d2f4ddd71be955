"""Optional fields, asked for in every way that Python has: in, hasattr, get, assert, try."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from typedbatch import Batch


def make(rng: np.random.Generator, *, masks: bool, weights: bool) -> Batch:
    batch = Batch(q=rng.normal(size=(6, 3)), act=rng.integers(0, 3, 6))
    batch.target = rng.normal(size=6)
    if masks:
        batch.mask = rng.random((6, 3)) < 0.8
    if weights:
        batch.weight = rng.random(6)
    return batch


def masked_argmax(batch: Batch) -> np.ndarray:
    q = batch["q"]
    if "mask" in batch:
        q = np.where(batch["mask"], q, -np.inf)
    return np.asarray(q.argmax(-1))


def losses(rng: np.random.Generator, masks: bool, weights: bool) -> dict[str, float]:
    batch = Batch(q=rng.normal(size=(6, 3)), act=rng.integers(0, 3, 6), target=rng.normal(size=6))
    if masks:
        batch.mask = rng.random((6, 3)) < 0.8
    if weights:
        batch.weight = rng.random(6)
    batch.chosen = batch.q[np.arange(6), batch.act]
    #! misspelt-read: batch.chosen = batch.q[np.arange(6), batch.action]
    batch.td = np.square(batch.chosen - batch.target)
    #! old-name: batch.td = np.square(batch.chosen - batch.returns)
    out = {"plain": float(batch.td.mean())}
    if hasattr(batch, "weight"):
        out["weighted"] = float((batch.weight * batch.td).mean())
    if "mask" in batch:
        out["masked"] = float(batch.mask.mean())
    try:
        out["tried"] = float(batch.weight.sum())
    except AttributeError:
        out["tried"] = 0.0
    with contextlib.suppress(AttributeError):
        out["suppressed"] = float(batch.mask.sum())
    mean_weight = float(batch.weight.mean()) if weights else 1.0
    #! branch-field: mean_weight = float(batch.weight.mean())
    out["mean_weight"] = mean_weight
    scale = batch.get("weight", np.ones(6))
    out["scaled"] = float((scale * batch.td).sum())
    allowed = batch.mask if masks else np.ones((6, 3), bool)
    #! branch-field: allowed = batch.mask
    out["allowed"] = float(allowed.sum())
    return out


def strict(batch: Batch) -> float:
    assert "weight" in batch, "prioritised sampling is on, but the batch has no weights"
    return float(batch["weight"].sum())


def checked_attr(payload: Any) -> float:
    """Payloads come from plugins: batches, dicts, or anything with these attributes."""
    batch = Batch(payload) if isinstance(payload, dict) else payload
    bonus = getattr(batch, "bonus", None)
    total = float(batch["base"].sum())
    return total if bonus is None else total + float(bonus.sum())


def staged(level: int) -> Batch:
    batch = Batch(x=np.arange(4.0))
    if level >= 1:
        batch.y = batch.x**2
    if level >= 2:
        batch.z = batch.x + batch.y
    if level >= 1:
        batch.y_mean = batch.y.mean()
    if level >= 2:
        batch.z_mean = batch.z.mean()
        #! misspelt-read: batch.z_mean = batch.zs.mean()
    summary = batch.x.sum()
    #! branch-field: summary = batch.x.sum() + batch.y_mean
    batch.summary = summary
    return batch


def main() -> None:
    rng = np.random.default_rng(0)
    for masks in (False, True):
        for weights in (False, True):
            print({name: round(value, 3) for name, value in losses(rng, masks, weights).items()})
            sample = make(rng, masks=masks, weights=weights)
            print(masked_argmax(sample).tolist(), round(strict(sample), 3) if weights else None)
    print([sorted(staged(level).keys()) for level in range(3)])
    payload = Batch(base=np.ones(3), bonus=np.ones(3))
    #! missing-field: payload = Batch(bonus=np.ones(3))
    print(checked_attr(payload), checked_attr({"base": np.ones(2)}))


if __name__ == "__main__":
    main()
