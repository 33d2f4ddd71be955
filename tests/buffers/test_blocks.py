"""Several rows for each ring in one call: the same as one call for each row, whatever is full, and whichever order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typedbatch import Batch, errors
from typedbatch.buffers import PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer
from typedbatch.buffers.state import state_of

MAKE = {
    "vector": VectorReplayBuffer,
    "prioritized": lambda size, rings: PrioritizedVectorReplayBuffer(size, rings, 0.5, 0.5),
}


def rows(numbers, ends):
    column = np.asarray(numbers, float)
    return Batch(
        obs=column[:, None], act=column, rew=column, terminated=np.asarray(ends), truncated=np.zeros(len(ends), bool)
    )


@pytest.mark.parametrize("name", MAKE)
@given(rings=st.integers(1, 4), size=st.integers(1, 6), data=st.data())
def test_many_rows_at_once_are_as_one_after_the_other(name, rings, size, data):
    together, apart = MAKE[name](rings * size, rings), MAKE[name](rings * size, rings)
    for _ in range(data.draw(st.integers(1, 4))):
        ids = data.draw(st.lists(st.integers(0, rings - 1), min_size=1, max_size=12))
        numbers = data.draw(st.lists(st.integers(0, 9), min_size=len(ids), max_size=len(ids)))
        ends = data.draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids)))
        batch = rows(numbers, ends)
        added = together.add(batch, buffer_ids=ids)
        one_by_one = [apart.add(batch[i : i + 1], buffer_ids=ids[i : i + 1]) for i in range(len(ids))]
        for got, wanted in zip(added, zip(*one_by_one, strict=True), strict=True):
            np.testing.assert_array_equal(got, np.concatenate(wanted))
    assert together[:] == apart[:]
    for part in ("counts", "ep_return"):
        np.testing.assert_array_equal(getattr(state_of(together).rings, part), getattr(state_of(apart).rings, part))
    if name == "prioritized":
        every = np.arange(together.maxsize)
        np.testing.assert_array_equal(together.weight[every], apart.weight[every])


def test_all_of_them_or_none():
    buffer = VectorReplayBuffer(6, 2)
    buffer.add(rows([1, 2], [False, False]))
    bad = rows([3, 4, 5], [False] * 3)
    bad.obs = np.zeros((3, 2))
    with pytest.raises(errors.RowAssignmentError, match="field 'obs'"):
        buffer.add(bad, buffer_ids=[0, 0, 1])
    assert buffer[:].act.tolist() == [1, 2]


def test_on_disk(tmp_path):
    buffer = VectorReplayBuffer(6, 2, path=tmp_path)
    buffer.add(rows(range(9), [False] * 9), buffer_ids=[0, 1, 0, 1, 0, 1, 0, 0, 0])
    buffer.close()
    assert VectorReplayBuffer.open(tmp_path)[:].act.tolist() == [6, 7, 8, 1, 3, 5]


def test_one_ring():
    buffer = ReplayBuffer(3)
    assert buffer.add(rows(range(5), [False] * 5), buffer_ids=[0] * 5).slots.tolist() == [0, 1, 2, 0, 1]
    assert buffer[:].act.tolist() == [2, 3, 4]
