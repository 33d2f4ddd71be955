"""Positions in rings, beside lists of the slots in the order in which they were filled."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from typedbatch.buffers.rings import Rings


@st.composite
def filled_rings(draw):
    """Rings, often of equal capacity and equally filled, with the slots of each ring, oldest first."""
    count = draw(st.integers(1, 4))
    capacity, rows = st.integers(1, 5), st.integers(0, 12)
    if draw(st.booleans()):
        capacity, rows = st.just(draw(capacity)), st.just(draw(rows))
    rings = Rings([draw(capacity) for _ in range(count)])
    order = [rings.push(ring, draw(rows)).tolist()[-size:] for ring, size in enumerate(rings.capacity.tolist())]
    for ring in range(count if draw(st.booleans()) else 0):
        dropped = draw(st.integers(0, len(order[ring])))
        rings.length[ring] -= dropped
        order[ring] = order[ring][dropped:]
    return rings, order


@given(filled_rings())
def test_slots_hold_rows(made):
    rings, order = made
    held = {slot for slots in order for slot in slots}
    assert rings.has_row(np.arange(rings.size)).tolist() == [slot in held for slot in range(rings.size)]


@given(filled_rings())
def test_rows_are_numbered_in_time_order_ring_by_ring(made):
    rings, order = made
    assert rings.chronological().tolist() == [slot for slots in order for slot in slots]


@given(filled_rings(), st.data())
def test_a_step_leads_to_the_next_row_of_the_episode(made, data):
    rings, order = made
    done = np.array(data.draw(st.lists(st.booleans(), min_size=rings.size, max_size=rings.size)))
    for slots in order:
        expected = [slot if done[slot] or slot == slots[-1] else slots[n + 1] for n, slot in enumerate(slots)]
        after, continues = rings.step(np.array(slots, np.intp), done)
        assert after.tolist() == rings.next(np.array(slots, np.intp), done).tolist() == expected
        assert continues.tolist() == [not (done[slot] or slot == slots[-1]) for slot in slots]
