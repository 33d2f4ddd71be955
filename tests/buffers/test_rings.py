"""Positions in rings, beside lists of the slots in the order in which they were filled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from typedbatch.buffers.arguments import as_slots
from typedbatch.buffers.rings import Rings
from typedbatch.errors import RowIndexError


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


@given(filled_rings(), st.data())
def test_steps_ahead_are_repeated_calls_of_step(made, data):
    rings, order = made
    done = np.array(data.draw(st.lists(st.booleans(), min_size=rings.size, max_size=rings.size)))
    slots = np.array([slot for slots in order for slot in slots], np.intp)
    ahead, continues = rings.ahead(slots, done, data.draw(st.integers(1, 6)))
    assert len(ahead) == len(continues) + 1
    for before, after, goes_on in zip(ahead, ahead[1:], continues, strict=False):
        expected, mask = rings.step(before, done)
        assert (after.tolist(), goes_on.tolist()) == (expected.tolist(), mask.tolist())


@given(filled_rings(), st.data())
def test_what_is_computed_from_the_positions_follows_each_change(made, data):
    """Changes through the rings, through a part of them, and of the arrays themselves."""
    rings, _ = made
    ring = data.draw(st.integers(0, len(rings.capacity) - 1))
    part, size = rings.part(ring), rings.capacity.item(ring)
    for way in data.draw(st.lists(st.sampled_from(["rings", "part", "arrays", "dropped"]), max_size=6)):
        rings.chronological(), part.chronological()
        if way == "arrays":
            rings.length[ring] = 0
        elif way == "dropped":
            rings.drop_oldest([ring], data.draw(st.integers(0, size)))
        else:
            (rings if way == "rings" else part).push(ring if way == "rings" else 0, 1)
        fresh = Rings(rings.capacity.tolist())
        fresh.counts[...] = rings.counts
        assert rings.chronological().tolist() == fresh.chronological().tolist()
        assert part.chronological().tolist() == fresh.part(ring).chronological().tolist()
        assert (rings.last.tolist(), rings.occupancy.oldest.tolist()) == (
            fresh.last.tolist(),
            fresh.occupancy.oldest.tolist(),
        )


@given(filled_rings(), st.integers(-1, 25))
def test_a_slot_is_accepted_if_it_holds_a_row(made, slot):
    rings, order = made
    held = sorted(slot for slots in order for slot in slots)
    wanted = held[slot] if slot < 0 and held else slot
    if wanted in held:
        assert as_slots(rings, np.array([slot])).tolist() == [wanted]
    else:
        with pytest.raises(RowIndexError):
            as_slots(rings, np.array([slot]))
