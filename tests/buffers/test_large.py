"""A buffer with room for billions of rows: what is asked about a few rows takes the memory of a few rows."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.buffers.helpers import transition, transitions
from typedbatch import errors
from typedbatch.buffers import ReplayBuffer, VectorReplayBuffer
from typedbatch.buffers.rings import Rings

SLOTS = 10**9
MADE: dict[str, Callable[[], Any]] = {
    "ring": lambda: ReplayBuffer(SLOTS),
    "vector": lambda: VectorReplayBuffer(SLOTS, 2),
}
QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "a slot": lambda buffer: buffer[0],
    "the last row": lambda buffer: buffer[-1],
    "rows from the end": lambda buffer: buffer[[-1, -2]],
    "a negative slice": lambda buffer: buffer[-2:],
    "a slice with steps": lambda buffer: buffer[::-2],
    "all": lambda buffer: buffer[:],
    "iteration": list,
    "a field": lambda buffer: buffer.get(-1, "act"),
    "neighbours": lambda buffer: (buffer.prev(-1), buffer.next(-1)),
    "a sample": lambda buffer: buffer.sample(3),
    "nulls": lambda buffer: (buffer.hasnull(), buffer.isnull()),
    "its text": repr,
    "what goes on": lambda buffer: buffer.unfinished_index(),
    "reset": lambda buffer: buffer.reset(),
}


def added_to(buffer: Any, rows: int) -> Any:
    for number in range(rows):
        buffer.add(transitions([number, number + 0.25]) if buffer.buffer_num == 2 else transition(number))
    return buffer


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("made", MADE)
def test_a_question_about_few_rows_takes_little_memory(made, question):
    buffer = added_to(MADE[made](), 3)
    tracemalloc.start()
    try:
        QUESTIONS[question](buffer)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 12)), min_size=1, max_size=4), st.data())
def test_rows_are_counted_from_the_end_as_in_the_list_of_all_slots_with_a_row(sizes, data):
    rings = Rings([capacity for capacity, _ in sizes])
    for ring, (_, rows) in enumerate(sizes):
        rings.push(ring, rows)
    slots = np.arange(rings.size)
    expected = slots[rings.has_row(slots)]
    assert rings.stored().tolist() == expected.tolist()
    start, stop, step = (data.draw(st.none() | st.integers(-30, 30).filter(bool)) for _ in range(3))
    assert rings.stored(slice(start, stop, step)).tolist() == expected[start:stop:step].tolist()
    if len(expected):
        places = np.array(data.draw(st.lists(st.integers(-len(expected), -1))), np.intp)
        assert rings.from_the_end(places).tolist() == expected[places].tolist()
    free = np.concatenate([slots[one] for one in rings.free()])
    assert sorted(free.tolist()) == sorted({*slots.tolist()} - {*expected.tolist()})


@pytest.mark.parametrize(
    "index",
    [2**70, -(2**70), np.uint64(2**64 - 1), np.array([0, 2**64 - 1], np.uint64), 2**63, -4, [-4], slice("a", None)],
)
def test_a_slot_that_there_cannot_be_is_refused(index):
    with pytest.raises(errors.RowIndexError):
        added_to(ReplayBuffer(5), 3)[index]
