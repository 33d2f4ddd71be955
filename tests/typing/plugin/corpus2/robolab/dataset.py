"""Demos joined into one set with features, split and iterated."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, cat, stack, validate

from robolab.types import Demo, Labelled

FeatureFn = Callable[[Demo], NDArray[Any]]


def joints(d: Demo) -> NDArray[Any]:
    return np.concatenate([d.obs.proprio.q, d.obs.proprio.dq], -1)


def pixels(d: Demo) -> NDArray[Any]:
    return d.obs.vision.rgb.reshape(len(d.act), -1)
    #! misspelt-nested: return d.obs.vision.image.reshape(len(d.act), -1)


FEATURES: dict[str, FeatureFn] = {"joints": joints, "pixels": pixels}


def build(runs: list[list[Demo]], names: list[str]) -> Labelled:
    each: list[Demo] = [stack(r) for r in runs]
    parts: list[Batch] = []
    for k, demo in enumerate(each):
        part = Batch({name: FEATURES[name](demo) for name in names})
        row = Batch(features=np.concatenate(list(part.values()), -1), act=demo.act)
        row.run = np.full(len(demo), k)
        row.first = np.arange(len(demo)) == 0
        parts.append(row)
    table = cat(parts)
    table.features = (table.features - table.features.mean(0)) / (table.features.std(0) + 1e-3)
    #! misspelt-read: table.features = (table.features - table.feature.mean(0)) / (table.features.std(0) + 1e-3)
    kept = table[~table.first]
    return validate(kept, Labelled)


def folds(data: Labelled, n: int) -> Iterator[tuple[Labelled, Labelled]]:
    index = np.arange(len(data)) % n
    for k in range(n):
        yield data[index != k], data[index == k]
