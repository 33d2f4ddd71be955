"""Windows of rows that a buffer samples, against lists of what was added."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from tests.buffers.helpers import (
    Step,
    assert_same,
    every_store,
    filled,
    held,
    ids_for,
    is_hindsight,
    made,
    plain_rows,
    rows_for,
    step,
)
from typedbatch import Batch, BatchRecord
from typedbatch.buffers import PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer
from typedbatch.errors import EmptyBufferError, SchemaError, SettingError, SizeError, StructureError

Window = list[Step | None]


def episodes(ring: list[Step]) -> list[list[Step]]:
    out: list[list[Step]] = [[]]
    for one in ring:
        out[-1].append(one)
        if one.done:
            out.append([])
    return [episode for episode in out if episode]


def windows(
    history: list[list[Step]], length: int, burn_in: int = 0, stride: int = 1, pad: bool = True
) -> list[Window]:
    """All windows, in time order, with None for rows that are not there."""
    out = []
    for ring in history:
        for episode in episodes(ring):
            for begin in range(0, len(episode), stride):
                if pad or begin + length <= len(episode):
                    numbers = range(begin - burn_in, begin + length)
                    out.append([episode[n] if 0 <= n < len(episode) else None for n in numbers])
    return out


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 3), st.integers(1, 9), st.integers(0, 60), st.integers(1, 5), st.integers(0, 3), st.integers(1, 4),
    st.booleans(), st.booleans(), st.integers(0, 1000),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:with ignore_obs_next")
def test_all_windows_are_those_of_lists(rings, size, count, length, burn_in, stride, pad, without_next, seed):
    buffer = VectorReplayBuffer(rings * size, rings, ignore_obs_next=without_next)
    history = filled(buffer, count, seed)
    expected = windows(history, length, burn_in, stride, pad)
    if not expected:
        with pytest.raises(EmptyBufferError):
            buffer.sample_sequences(0, length, burn_in=burn_in, stride=stride, pad=pad)
        return
    found, slots = buffer.sample_sequences(0, length, burn_in=burn_in, stride=stride, pad=pad)
    assert slots.shape == found.mask.shape == (len(expected), burn_in + length)
    cut = {ring[0].slot for ring in history if len(ring) == size}
    for number, window in enumerate(expected):
        there = [one is not None for one in window]
        assert (~found.is_pad[number]).tolist() == there
        assert found.mask[number].tolist() == [False] * burn_in + there[burn_in:]
        rows = [one for one in window if one is not None]
        assert slots[number][there].tolist() == [one.slot for one in rows]
        assert set(slots[number].tolist()) == {one.slot for one in rows}
        stored = buffer[slots[number][there]]
        for name in ("obs", "act", "rew", "terminated", "truncated", "obs_next"):
            values = getattr(found, name)[number]
            assert_same(values[there], getattr(stored, name))
            assert not values[~np.array(there)].any()
        firsts = {episode[0].slot for ring in history for episode in episodes(ring)} - cut
        assert found.is_first[number].tolist() == [one is not None and one.slot in firsts for one in window]


@pytest.mark.parametrize(("burn_in", "stride", "pad"), [(0, 1, True), (2, 3, True), (1, 2, False)])
def test_every_window_is_as_likely_as_any_other(burn_in, stride, pad):
    buffer = VectorReplayBuffer(24, 2)
    history = filled(buffer, 40, 3)
    expected = [[one and one.slot for one in window] for window in windows(history, 3, burn_in, stride, pad)]
    drawn, slots = buffer.sample_sequences(200 * len(expected), 3, burn_in=burn_in, stride=stride, pad=pad)
    keys = np.where(drawn.is_pad, -1, slots).tolist()
    counts = [keys.count([-1 if slot is None else slot for slot in window]) for window in expected]
    assert sum(counts) == len(keys)
    assert 140 < min(counts) <= max(counts) < 260


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize(("burn_in", "stride", "pad"), [(0, 1, True), (2, 2, True), (1, 1, False)])
def test_a_prioritized_window_is_as_likely_as_the_first_row_to_learn_from(vector, burn_in, stride, pad):
    buffer: Any = PrioritizedReplayBuffer(12, 0.7, 0.5)
    if vector:
        buffer = PrioritizedVectorReplayBuffer(12, 2, 0.7, 0.5)
    history = filled(buffer, 20, 5)
    begins = [window[burn_in] for window in windows(history, 3, burn_in, stride, pad)]
    every = np.array([one.slot for ring in history for one in ring])
    buffer.update_weight(every, np.linspace(0.1, 3, len(every)))
    _, slots = buffer.sample_sequences(20_000, 3, burn_in=burn_in, stride=stride, pad=pad)
    powers = np.array([buffer.weight[one.slot] for one in begins if one is not None])
    counts = np.array([np.count_nonzero(slots[:, burn_in] == one.slot) for one in begins if one is not None])
    assert counts.sum() == 20_000
    np.testing.assert_allclose(counts / 20_000, powers / powers.sum(), atol=0.012)
    found, slots = buffer.sample_sequences(6, 3, burn_in=burn_in, stride=stride, pad=pad)
    own = powers[[[one.slot for one in begins if one].index(slot) for slot in slots[:, burn_in]]]
    np.testing.assert_allclose(found.weight, (own / own.min()) ** -0.5)


def test_priorities_of_windows_whose_rows_are_gone_are_left_out():
    buffer = PrioritizedReplayBuffer(4, 1.0, 0.5)
    held(buffer, *[step(i) for i in range(4)])
    _, slots = buffer.sample_sequences(0, 2, burn_in=1)
    held(buffer, step(4), step(5))
    buffer.update_weight(slots[:, 1], [7.0, 7, 8, 9])
    assert [round(buffer.weight[slot]) for slot in range(4)] == [1, 1, 8, 9]


@every_store
def test_every_buffer_but_those_with_goals(name: str, tmp_path: Path):
    buffer = made(name, tmp_path)
    for i in range(5):
        buffer.add(rows_for(name, [i, 10 + i], i == 3), buffer_ids=ids_for(name.removesuffix(" on disk")))
    if is_hindsight(name):
        with pytest.raises(SettingError, match="draws a goal for each row, and a window has one goal"):
            buffer.sample_sequences(2, 2)
        return
    found, slots = buffer.sample_sequences(5, 2)
    there = ~found.is_pad
    assert_same(found.info.t[there], buffer[slots[there]].info.t)
    if name.endswith(" on disk"):
        whole, _ = buffer.sample_sequences(0, 2)
        buffer.close()
        assert_same(type(buffer).open(tmp_path / "buffer", "r").sample_sequences(0, 2)[0], whole)


def test_the_state_is_that_of_the_first_row():
    buffer = ReplayBuffer(8)
    states = [Batch(h=np.full(2, i), c=torch.full((2,), float(i))) for i in range(5)]
    held(buffer, *[step(i, i == 2, state_in=states[i]) for i in range(5)])
    found, _ = buffer.sample_sequences(0, 2, burn_in=1)
    assert found.state_in.h.tolist() == [[i, i] for i in (0, 0, 1, 3, 3)]
    assert found.state_in.c.tolist() == found.state_in.h.tolist()


def test_frames_are_stacked_in_windows():
    buffer = ReplayBuffer(8, stack_num=2)
    held(buffer, *[step(float(i), i == 2) for i in range(5)])
    found, _ = buffer.sample_sequences(0, 2)
    assert found.obs.tolist() == [
        [[0, 0], [0, 1]],
        [[0, 1], [1, 2]],
        [[1, 2], [0, 0]],
        [[3, 3], [3, 4]],
        [[3, 4], [0, 0]],
    ]


class Row(BatchRecord):
    obs: Tensor
    act: Tensor
    rew: Tensor
    terminated: Tensor
    truncated: Tensor
    obs_next: Tensor


class Windows(Row):
    mask: Tensor
    is_first: NDArray[np.bool_]


def test_a_record_of_windows_derives_from_that_of_rows():
    buffer = ReplayBuffer[Any, Any](8)
    held(buffer, *[step(float(i)) for i in range(5)])
    found, _ = buffer.sample_sequences(3, 2, into=Windows, dtype=torch.float32)
    assert type(found) is Windows
    assert found.rew.shape == (3, 2)
    assert found.rew.dtype == torch.float32
    assert found.mask.dtype == torch.bool
    with pytest.raises(SchemaError, match="state_in"):
        buffer.sample_sequences(3, 2, into=type("WithState", (Windows,), {"__annotations__": {"state_in": Tensor}}))


def test_nothing_is_shared_with_the_buffer():
    buffer = held(ReplayBuffer(4), *[step(float(i)) for i in range(4)])
    found, slots = buffer.sample_sequences(0, 2)
    found.obs[:], slots[:] = 99, 0
    assert buffer[:].obs.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"batch_size": -1, "length": 2}, SizeError, "batch_size"),
        ({"batch_size": 2, "length": 0}, SizeError, "length"),
        ({"batch_size": 2, "length": 2, "burn_in": -1}, SizeError, "burn_in"),
        ({"batch_size": 2, "length": 2, "stride": 0}, SizeError, "stride"),
        ({"batch_size": 2, "length": 1.5}, SizeError, "length is a whole number"),
        ({"batch_size": 2, "length": 2**62}, SizeError, r"burn_in \+ length must be"),
        (
            {"batch_size": 2, "length": 5, "pad": False},
            EmptyBufferError,
            "no stored episode has 5 rows, the longest has 3",
        ),
        ({"batch_size": 2, "length": 2, "dtype": torch.float32}, SettingError, "need into="),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], error: type[Exception], text: str):
    buffer = held(ReplayBuffer(4), *[step(float(i)) for i in range(3)])
    with pytest.raises(error, match=text):
        buffer.sample_sequences(**arguments)
    assert buffer[:].obs.tolist() == [0, 1, 2]


def test_a_buffer_without_rows_has_no_windows():
    with pytest.raises(EmptyBufferError, match="is empty"):
        ReplayBuffer(4).sample_sequences(1, 2)
    buffer = held(ReplayBuffer(4), step(1.0))
    buffer.reset()
    with pytest.raises(EmptyBufferError, match="is empty"):
        buffer.sample_sequences(0, 2)


def test_rows_with_the_name_of_a_field_of_windows_are_refused():
    buffer = held(ReplayBuffer(4), step(1.0, mask=1.0))
    with pytest.raises(StructureError, match="windows have a field mask of their own"):
        buffer.sample_sequences(1, 2)


def test_rows_that_were_added_in_blocks_of_any_size():
    buffer = ReplayBuffer(16)
    for i in range(0, 40, 5):
        buffer.extend(plain_rows([Step(0, 0, number, 0.0, number % 7 == 6, False) for number in range(i, i + 5)]))
    found, _ = buffer.sample_sequences(0, 3, stride=2, pad=False)
    firsts = found.act[:, 0] // 10
    assert (found.act // 10 == firsts[:, None] + np.arange(3)).all()
    assert (firsts // 7 == (firsts + 2) // 7).all()
