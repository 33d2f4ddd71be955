"""Right, and yet checkers refuse it without the overlay: all of them the first, some of them the others."""

import numpy as np
from tianshou.data import Batch
from tianshou.data.batch import BatchProtocol


def doubled(batch: BatchProtocol) -> BatchProtocol:
    return batch * 2


def has_mask(batch: BatchProtocol) -> bool:
    return "mask" in batch


def of_dictionaries(loaded: Batch) -> Batch:
    stacked: Batch = Batch.stack([{"a": 1.0}, {"a": 2.0}])
    return Batch.cat([{"a": np.ones(2)}, loaded, stacked])


def main() -> None:
    assert of_dictionaries(Batch(a=np.zeros(3))).a.shape == (7,)
    assert doubled(Batch(a=np.ones(3)))["a"].sum() == 6
    assert not has_mask(Batch(a=np.ones(3)))
