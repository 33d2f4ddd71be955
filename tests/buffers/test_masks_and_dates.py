"""What a column cannot hold as it is does not get into a buffer: masked values, dates that overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.buffers.helpers import transition
from typedbatch import Batch
from typedbatch.buffers import ReplayBuffer, VectorReplayBuffer
from typedbatch.errors import RowAssignmentError

HIDDEN = np.ma.array([1.0, 1e20], mask=[False, True])


def with_fields(**fields: Any) -> Batch:
    return Batch(transition(1), **fields)


@pytest.mark.parametrize("before", [0, 1], ids=["a new field", "a field that is there"])
@pytest.mark.parametrize("dtype", [float, int, object, np.float32], ids=str)
def test_a_masked_value_is_not_stored(before: int, dtype: Any) -> None:
    buffer = ReplayBuffer(4)
    for _ in range(before):
        buffer.add(with_fields(x=np.zeros(2, dtype)))
    masked = np.ma.array([1, 2], dtype, mask=[False, True])
    with pytest.raises(RowAssignmentError, match="field 'x': some values are masked"):
        buffer.add(with_fields(x=masked))
    assert len(buffer) == before
    buffer.add(with_fields(x=np.ma.array([1, 2], dtype)))  # none of these is
    assert buffer[:].x[-1].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("name", "value"), [("rew", np.ma.masked), ("terminated", np.ma.array(True, mask=True)), ("act", np.ma.masked)]
)
def test_masked_rewards_flags_and_actions_are_refused(name: str, value: Any) -> None:
    buffer = ReplayBuffer(4)
    for _ in range(2):
        with pytest.raises(RowAssignmentError, match=f"field '{name}': some values are masked"):
            buffer.add(with_fields(**{name: value}))
        buffer.add(transition(1))
    assert len(buffer) == 2


def test_rows_of_several_environments_are_refused_as_a_whole() -> None:
    buffer = VectorReplayBuffer(4, 2)
    rows = Batch.stack([transition(1), transition(2)])
    rows.x = np.ma.array([1.0, 2.0], mask=[False, True])
    with pytest.raises(RowAssignmentError, match="field 'x'"):
        buffer.add(rows)
    assert len(buffer) == 0


@pytest.mark.parametrize(
    ("first", "fits", "overflows"),
    [
        (np.datetime64(0, "ns"), np.datetime64("2020-01-01"), np.datetime64("9999-01-01")),
        (np.timedelta64(0, "ns"), np.timedelta64(5, "s"), np.timedelta64(10**7, "D")),
    ],
    ids=["date", "duration"],
)
def test_a_date_that_overflows_is_not_stored(first: Any, fits: Any, overflows: Any) -> None:
    buffer = ReplayBuffer(4)
    buffer.add(with_fields(at=first))
    with pytest.raises(RowAssignmentError, match=r"field 'at': .*\[ns\] cannot hold"):
        buffer.add(with_fields(at=overflows))
    buffer.add(with_fields(at=fits))
    assert buffer[:].at.tolist() == [first.astype(int), fits.astype(first.dtype).astype(int)]


def test_stored_rows_without_a_value_are_missing() -> None:
    buffer = ReplayBuffer(4)
    for number in range(3):
        buffer.add(transition(number))
    buffer.set_array_at_key(np.array([0.5, 0.7]), "label", [0, 2])
    np.testing.assert_array_equal(buffer[:].label, [0.5, np.nan, 0.7])
    assert buffer.hasnull()
    buffer.dropnull()
    assert buffer[:].label.tolist() == [0.5, 0.7]


def test_integers_need_a_value_for_every_stored_row() -> None:
    buffer = ReplayBuffer(4)
    for number in range(2):
        buffer.add(transition(number))
    with pytest.raises(RowAssignmentError, match=r"field 'kind': 1 of 2 rows get no value.*default_value="):
        buffer.set_array_at_key(np.array([5]), "kind", [1])
    assert "kind" not in buffer[:]
    buffer.set_array_at_key(np.array([5, 6]), "kind", [0, 1])
    buffer.set_array_at_key(np.array([5]), "other", [1], default_value=-1)
    assert (buffer[:].kind.tolist(), buffer[:].other.tolist()) == ([5, 6], [-1, 5])
    with pytest.raises(RowAssignmentError, match="field 'x': some values are masked"):
        buffer.set_array_at_key(HIDDEN, "x", [0, 1])
