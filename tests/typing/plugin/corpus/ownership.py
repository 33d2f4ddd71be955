"""Memory-conscious training: big fields are taken out, dropped and put back."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch


def render(n: int, rng: np.random.Generator) -> Batch:
    data = Batch(frames=rng.integers(0, 255, size=(n, 3, 8, 8), dtype=np.uint8), rew=rng.normal(size=n))
    data.act = rng.integers(0, 4, size=n)
    data.info = {"time": np.arange(n), "lives": np.full(n, 3)}
    return data


def encode(frames: Tensor, net: nn.Module) -> Tensor:
    features: Tensor = net(frames.float() / 255)
    return features


def compact(n: int, net: nn.Module) -> dict[str, float]:
    rng = np.random.default_rng(n)
    data = Batch(frames=rng.integers(0, 255, size=(n, 3, 8, 8), dtype=np.uint8), rew=rng.normal(size=n), aux=np.zeros(n))
    data.act = rng.integers(0, 4, size=n)
    brightness = data.frames.mean(axis=(1, 2, 3))
    with torch.no_grad():
        data.features = encode(torch.as_tensor(data.pop("frames")), net).numpy()
    data.bright = brightness
    #! removed-field: data.bright = data.frames.mean(axis=(1, 2, 3))
    del data.aux
    data.score = data.features.sum(-1) + data.bright / 255
    #! removed-field: data.score = data.features.sum(-1) + data.aux
    del data["features"]
    size = float(sum(value.nbytes for value in data.values()))
    #! removed-field: size = float(data.features.nbytes)
    return {"score": float(data.score.mean()), "bytes": size, "fields": float(len(data.keys()))}


def rename(data: Batch) -> Batch:
    out = Batch(data)
    out.reward = out.pop("rew")
    out.action = out.pop("act")
    out.time = out["info"]["time"]
    #! misspelt-item: out.time = out["infos"]["time"]
    del out["info"]
    out.discount = 0.99**out.time
    out.value = out.reward * out.discount
    #! removed-field: out.value = out.rew * out.discount
    return out


def recycle(rounds: int) -> list[int]:
    scratch = Batch(total=np.zeros(3))
    sizes = []
    for _ in range(rounds):
        scratch.clear()
        scratch.update(total=np.ones(3), parts=np.arange(3))
        scratch.setdefault("count", np.zeros(3))
        scratch.total += scratch.parts + scratch.count
        #! misspelt-read: scratch.total += scratch.parts + scratch.counts
        sizes.append(int(scratch.total.sum()))
    name, _ = scratch.popitem()
    return [*sizes, len(name)]


def checkpoint(data: Batch, path: list[Batch]) -> Batch | None:
    latest = data.copy()
    latest.saved_at = len(path)
    path.append(latest)
    older = path[-2] if len(path) > 1 else None
    return older


def main() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(192, 8))
    print({name: round(value, 3) for name, value in compact(16, net).items()})
    renamed = rename(render(10, np.random.default_rng(3)))
    print(sorted(renamed.keys()), round(float(renamed["value"].sum()), 4))
    #! removed-field: print(sorted(renamed.keys()), round(float(renamed["rew"].sum()), 4))
    saved: list[Batch] = []
    checkpoint(renamed, saved)
    older = checkpoint(renamed, saved)
    print(recycle(3), older is not None and int(older["saved_at"]))


if __name__ == "__main__":
    main()
