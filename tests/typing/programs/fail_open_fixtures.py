"""Test fixtures as people write them: factories, fakes and plain asserts."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import Batch, BatchWithReturnsProtocol, RolloutBatch, RolloutBatchProtocol, SchemaError, validate

Array = NDArray[Any]
FIXTURES: dict[str, Callable[[], Batch]] = {}


def fixture(function: Callable[[], Batch]) -> Callable[[], Batch]:
    FIXTURES[str(getattr(function, "__name__"))] = function
    return function


@fixture
def small_batch() -> Batch:
    return Batch(obs=np.zeros((4, 2)), obs_next=np.ones((4, 2)), act=[0, 1, 1, 0], rew=[1.0, 0.0, 1.0, 0.0])


@fixture
def full_batch() -> Batch:
    batch = small_batch()
    batch.terminated = [False, False, False, True]
    batch.truncated = np.zeros(4, bool)
    batch.info = Batch(env_id=[0, 0, 1, 1])
    return batch


@fixture
def nested_batch() -> Batch:
    batch = full_batch()
    batch.obs = Batch(cam=np.zeros((4, 3, 8, 8), np.uint8), pos=np.zeros((4, 2)))
    batch.obs.cam[0] = 255
    batch.obs_next = batch.obs.copy()
    return batch


def count_ends(batch: RolloutBatchProtocol) -> int:
    return int((batch.terminated | batch.truncated).sum())


def total_return(batch: BatchWithReturnsProtocol) -> float:
    return float(batch.returns.sum())


def test_count() -> None:
    batch = FIXTURES["full_batch"]()
    assert count_ends(validate(batch, RolloutBatchProtocol)) == 1
    batch.truncated[1] = True
    assert count_ends(validate(batch, RolloutBatchProtocol)) == 2


def test_count_unchecked() -> None:
    assert count_ends(full_batch()) == 1  # E: user-unchecked


def test_missing() -> None:
    batch = small_batch()
    try:
        validate(batch, RolloutBatchProtocol)
    except SchemaError as error:
        assert len(error.problems) == 3, str(error)
    else:
        raise AssertionError


def test_nested() -> None:
    batch = nested_batch()
    assert batch.obs.cam[0].max() == 255
    assert batch[:2].info.env_id.sum() == 0
    parts = list(batch.split(2, shuffle=False))
    assert Batch.cat(parts) == batch
    assert Batch.stack(parts).obs.pos.shape == (2, 2, 2)
    del batch.obs.cam
    assert list(batch.obs.keys()) == ["pos"]


def make_record(**changes: Array) -> RolloutBatch:
    given = full_batch()
    given.update(changes)
    return validate(given, RolloutBatch)


def test_record() -> None:
    record = make_record(rew=np.full(4, 2.0))
    assert record.rew.sum() == 8
    record.rew = record.rew - 1
    assert record.rew.sum() == 4


def stage_test() -> None:
    assert total_return(make_record()) == 0  # E: user-wrong-stage


def main() -> None:
    for name, function in list(globals().items()):
        if name.startswith("test_"):
            function()
            print("passed", name)


if __name__ == "__main__":
    main()
