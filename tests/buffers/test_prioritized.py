"""Sampling in proportion to priorities, the weights that take the bias back, and the tree of sums below it."""

from __future__ import annotations

import math
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.buffers.helpers import holding, ids_for, made, step, transition, transitions
from typedbatch import Batch, errors
from typedbatch.buffers import (
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    SegmentTree,
    VectorReplayBuffer,
)
from typedbatch.buffers.state import state_of
from typedbatch.errors import RowAssignmentError, SettingError, StorageError

EPS = float(np.finfo(np.float32).eps)


def prioritized(priorities: Any, alpha: float = 1.0, beta: float = 0.5, **options: Any) -> PrioritizedReplayBuffer:
    """A full buffer whose rows have these priorities."""
    buffer = PrioritizedReplayBuffer(len(priorities), alpha, beta, **options)
    for i in range(len(priorities)):
        buffer.add(transition(i))
    buffer.update_weight(np.arange(len(priorities)), priorities)
    return buffer


def probabilities(priorities: Any, alpha: float) -> Any:
    powers = (np.abs(np.asarray(priorities, float)) + EPS) ** alpha
    return powers / powers.sum()


def assert_drawn(slots: Any, expected: Any) -> None:
    """The slots are drawn with these probabilities: chi-square, far beyond what chance does with a fixed seed."""
    counts = np.bincount(slots, minlength=len(expected))
    assert (counts[np.asarray(expected) == 0] == 0).all()
    wanted = len(slots) * np.asarray(expected)
    possible = wanted > 0
    statistic = ((counts - wanted)[possible] ** 2 / wanted[possible]).sum()
    free = possible.sum() - 1
    assert statistic < free + 5 * np.sqrt(2 * max(free, 1))


@pytest.mark.parametrize("alpha", [0.3, 0.6, 1.0, 2.0])
def test_a_row_is_sampled_with_the_probability_of_its_priority(alpha):
    priorities = [1.0, 0.5, -3.0, 0.1, 2.5, 4.0]
    buffer = prioritized(priorities, alpha)
    expected = probabilities(priorities, alpha)
    np.testing.assert_allclose(buffer.weight.values / buffer.weight.reduce(), expected, rtol=1e-12)
    assert_drawn(buffer.sample_indices(100_000), expected)
    batch, slots = buffer.sample(20_000)
    assert_drawn(slots, expected)
    assert batch.act.tolist() == slots.tolist()


def test_rows_of_several_rings_are_sampled_by_priority_alone():
    buffer = PrioritizedVectorReplayBuffer(8, 2, alpha=1.0, beta=0.5)
    for i in range(3):
        buffer.add(transitions([i]), buffer_ids=[1])
    buffer.add(transitions([9]), buffer_ids=[0])
    buffer.update_weight([0, 4, 5, 6], [4.0, 1.0, 2.0, 3.0])
    assert_drawn(buffer.sample_indices(50_000), [0.4, 0, 0, 0, 0.1, 0.2, 0.3, 0])


@pytest.mark.parametrize("kind", ["array", "tensor", "tensor with gradient", "half", "list", "integers"])
def test_priorities_come_as_whatever_td_errors_are(kind):
    errors_of = {
        "array": np.array([-2.0, 3.0]),
        "tensor": torch.tensor([-2.0, 3.0]),
        "tensor with gradient": torch.tensor([-2.0, 3.0], requires_grad=True),
        "half": torch.tensor([-2.0, 3.0], dtype=torch.bfloat16),
        "list": [-2.0, 3.0],
        "integers": np.array([-2, 3], np.int8),
    }[kind]
    buffer = prioritized([1.0, 1.0, 1.0])
    buffer.update_weight(np.array([0, 2]), errors_of)
    np.testing.assert_allclose(buffer.weight.values, [2.0, 1.0, 3.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("index", "changed"),
    [(1, [1]), (-1, [2]), (slice(0, 2), [0, 1]), (np.array([True, False, True]), [0, 2]), ([2], [2]), (..., [0, 1, 2])],
    ids=["slot", "negative", "slice", "mask", "list", "all"],
)
def test_one_priority_may_be_given_for_several_slots(index, changed):
    buffer = prioritized([1.0, 1.0, 1.0])
    buffer.update_weight(index, 5.0)
    np.testing.assert_allclose(buffer.weight.values, [5.0 if i in changed else 1.0 for i in range(3)], rtol=1e-6)


def test_all_rows_come_once_at_random_or_in_the_order_of_time():
    buffer = prioritized([1.0, 0.0, 0.0, 100.0])
    buffer.add(transition(4))
    assert buffer.sample_indices(0).tolist() == buffer.sample(0)[1].tolist() == [1, 2, 3, 0]
    orders = {tuple(buffer.sample_indices(None).tolist()) for _ in range(50)}
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len(orders) > 5


def test_no_priorities_change_nothing():
    buffer = prioritized([1.0, 2.0])
    before = buffer.weight.values.tolist()
    buffer.update_weight([], [])
    buffer.update_weight(np.array([False, False]), np.zeros(0))
    assert buffer.weight.values.tolist() == before


@pytest.mark.parametrize("alpha", [0.4, 1.0])
@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("weight_norm", [True, False])
def test_weights_are_those_of_the_paper(alpha, beta, weight_norm):
    priorities = np.array([1.0, 0.5, 3.0, 0.1, 2.5, 4.0])
    buffer = prioritized(priorities, alpha, beta, weight_norm=weight_norm)
    paper = (len(priorities) * probabilities(priorities, alpha)) ** -beta
    for slots in (np.arange(6), np.array([2, 4, 4]), np.array([0])):
        highest = paper[slots].max() if weight_norm else paper.max()  # that of the least likely row is the highest
        np.testing.assert_allclose(buffer[slots].weight, paper[slots] / highest, rtol=1e-12)
        np.testing.assert_allclose(buffer.get_weight(slots), paper[slots] / paper.max(), rtol=1e-12)
    batch, slots = buffer.sample(50)
    np.testing.assert_allclose(batch.weight, buffer[slots].weight, rtol=1e-12)
    assert batch.weight.dtype == np.float64
    assert batch.weight.shape == (50,)


def test_beta_may_change_as_training_goes_on():
    buffer = prioritized([1.0, 4.0], beta=0.0)
    assert buffer[[0, 1]].weight.tolist() == [1.0, 1.0]
    buffer.set_beta(0.5)
    np.testing.assert_allclose(buffer[[0, 1]].weight, [1.0, 0.5], rtol=1e-6)


def test_weights_are_relative_to_the_lowest_priority_so_far():
    buffer = prioritized([0.25, 1.0], beta=1.0, weight_norm=False)
    buffer.update_weight([0], [1.0])
    np.testing.assert_allclose(buffer[[0, 1]].weight, [0.25, 0.25], rtol=1e-5)


def test_a_single_row_has_a_weight_too():
    buffer = prioritized([0.25, 1.0])
    assert buffer[0].weight == 1.0
    assert np.ndim(buffer[0].weight) == 0


def test_rings_have_no_priorities_of_their_own():
    buffer = PrioritizedVectorReplayBuffer(4, 2, alpha=0.5, beta=0.5)
    buffer.add(transitions([1, 2]))
    assert "weight" not in buffer.buffers[0][:]
    assert "weight" in buffer[:]


BAD: dict[str, tuple[Any, Any, type[Exception]]] = {
    "nan": ([0, 1], [1.0, np.nan], errors.RowAssignmentError),
    "infinity": ([0, 1], [1.0, np.inf], errors.RowAssignmentError),
    "infinite tensor": ([0, 1], torch.tensor([1.0, -np.inf]), errors.RowAssignmentError),
    "too many": ([0, 1], [1.0, 2.0, 3.0], errors.RowAssignmentError),
    "one for several in a list": ([0, 1], [1.0], errors.RowAssignmentError),
    "a column": ([0, 1], [[1.0], [2.0]], errors.RowAssignmentError),
    "too few": ([0, 1], [], errors.RowAssignmentError),
    "a slot without a row": ([0, 3], [1.0, 2.0], errors.RowIndexError),
    "a slot that does not exist": ([0, 4], [1.0, 2.0], errors.RowIndexError),
    "a slot before the first": ([0, -4], [1.0, 2.0], errors.RowIndexError),
    "a fraction of a slot": ([0.5], [1.0], errors.RowIndexError),
    "text": ([0], ["a"], errors.RowAssignmentError),
    "complex": ([0], [1j], errors.RowAssignmentError),
}


@pytest.mark.parametrize("bad", BAD)
def test_priorities_that_are_none_change_nothing(bad):
    buffer = PrioritizedReplayBuffer(4, alpha=0.6, beta=0.4, weight_norm=False)
    for i in range(3):
        buffer.add(transition(i))
    buffer.update_weight([0, 1, 2], [0.5, 1.0, 2.0])
    before = buffer.weight.values.tolist(), buffer[:].weight.tolist()
    index, priorities, error = BAD[bad]
    with pytest.raises(error):
        buffer.update_weight(index, priorities)
    assert (buffer.weight.values.tolist(), buffer[:].weight.tolist()) == before
    buffer.add(transition(3))
    np.testing.assert_allclose(buffer.weight[3], 2.0**0.6, rtol=1e-6)


def test_weights_of_slots_without_a_row_are_refused():
    buffer = PrioritizedReplayBuffer(4, alpha=0.6, beta=0.4)
    buffer.add(transition(0))
    for index in (1, [0, 1], 4, [-2]):
        for read in (buffer.get_weight, buffer.init_weight):
            with pytest.raises(errors.RowIndexError):
                read(index)
    assert set(buffer.sample_indices(100).tolist()) == {0}


SIZES = [1, 2, 15, 16, 17, 255, 256, 257, 1024, 1025, 4097, 16384, 16385, 20_000, 300_000]


def tree_of(values: Any) -> SegmentTree:
    tree = SegmentTree(len(values))
    tree[np.arange(len(values))] = values
    return tree


def assert_found(tree: SegmentTree, values: Any, looked_up: Any) -> None:
    """Each place is one whose running sum, but for rounding, is the first that reaches the value; none is a zero."""
    sums, slack = values.cumsum(), 1e-9 * values.sum()
    found = tree.get_prefix_sum_idx(looked_up)
    assert found.shape == looked_up.shape
    assert (values[found] > 0).all()
    assert (sums[found] >= looked_up - slack).all()
    assert (sums[found] - values[found] <= looked_up + slack).all()


def lookups(values: Any, rng: np.random.Generator) -> Any:
    """Values within the sum: at random, and at and next to the running sums, where rounding decides."""
    sums = values.cumsum()
    some, edges, groups = sums[rng.integers(0, len(values), 2000)], [sums[15::16][:3000]], values
    while len(groups) > 1:  # sums of 16 numbers, of 16 such sums, and so on, which are rounded in another order
        groups = np.pad(groups, (0, -len(groups) % 16)).reshape(-1, 16) @ np.ones(16)
        edges.append(groups.cumsum()[:3000])
    beside = [np.nextafter(x, towards) for x in (some, *edges) for towards in (0, np.inf)]
    all_of_them = np.concatenate([[0.0], rng.random(2000) * sums[-1], some, *edges, *beside])
    return all_of_them[all_of_them < sums[-1] * (1 - 1e-12)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("zeros", [0.0, 0.5, 0.99])
def test_places_are_found_by_running_sums(size, zeros):
    for seed in range(3):
        rng = np.random.default_rng([size, seed])
        values = rng.random(size)
        values[rng.random(size) < zeros] = 0.0
        values[rng.integers(size)] = 0.5
        assert_found(tree_of(values), values, lookups(values, rng))


@pytest.mark.parametrize("size", SIZES)
def test_places_are_exact_where_sums_are(size):
    rng = np.random.default_rng(size)
    values = rng.integers(0, 4, size).astype(float)
    values[rng.integers(size)] = 3.0
    tree, sums = tree_of(values), values.cumsum()
    looked_up = np.concatenate([rng.integers(1, sums[-1] + 1, 2000), rng.integers(1, sums[-1] + 1, 2000) - 0.5])
    looked_up = looked_up[looked_up < sums[-1]]
    assert tree.get_prefix_sum_idx(looked_up).tolist() == sums.searchsorted(looked_up).tolist()


@pytest.mark.parametrize("size", SIZES)
def test_the_smallest_value_finds_the_first_number_that_is_not_zero(size):
    first = size // 2
    for last in (first, size - 1):
        values = np.zeros(size)
        values[[first, last]] = 0.1
        tree = tree_of(values)
        assert tree.get_prefix_sum_idx(0.0) == first
        assert tree.get_prefix_sum_idx(np.array([0.0, 1e-300, 0.05])).tolist() == [first] * 3
        almost = np.nextafter(tree.reduce(), 0)
        assert tree.get_prefix_sum_idx(almost) == last


@st.composite
def trees(draw: st.DrawFn) -> tuple[SegmentTree, Any]:
    """A tree, written to a few times with slots that come up more than once, and the array that it should be."""
    size = draw(st.sampled_from([1, 16, 17, 1024, 1025, 16385]) | st.integers(1, 70))
    tree, expected = SegmentTree(size), np.zeros(size)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    for count in draw(st.lists(st.sampled_from([0, 1, 3, 50, 2000]), min_size=1, max_size=4)):
        index = rng.integers(-size, size, count)
        value = rng.integers(0, 9, count) / 8 if draw(st.booleans()) else np.float64(rng.integers(1, 9))
        tree[index] = value
        for place, one in zip(index, np.broadcast_to(value, index.shape), strict=True):
            expected[place] = one
    return tree, expected


@given(trees(), st.data())
def test_a_tree_is_an_array_whose_sums_are_known(written, data):
    tree, expected = written
    size = len(expected)
    assert len(tree) == size
    assert tree[np.arange(size)].tolist() == tree.values.tolist() == expected.tolist()
    assert tree[-1] == expected[-1]
    assert tree.reduce() == expected.sum()
    for _ in range(5):
        start = data.draw(st.integers(-size - 2, size + 2))
        end = data.draw(st.none() | st.integers(-size - 2, size + 2))
        assert tree.reduce(start, end) == expected[start:end].sum()
    sums = expected.cumsum()
    if sums[-1]:
        looked_up = np.array(data.draw(st.lists(st.integers(1, int(8 * sums[-1])), max_size=5)), float) / 8
        looked_up = looked_up[looked_up < sums[-1]]
        assert tree.get_prefix_sum_idx(looked_up).tolist() == sums.searchsorted(looked_up).tolist()
        for value in looked_up[:1]:
            assert tree.get_prefix_sum_idx(float(value)) == sums.searchsorted(value)


def test_places_come_in_the_shape_of_the_values():
    tree = tree_of(np.array([1.0, 2.0, 3.0]))
    assert tree.get_prefix_sum_idx([[0.5, 1.5], [3.0, 3.5]]).tolist() == [[0, 1], [1, 2]]
    assert type(tree.get_prefix_sum_idx(1.5)) is int
    assert tree.get_prefix_sum_idx(np.zeros(0)).shape == (0,)
    assert type(tree.reduce()) is float


def test_what_is_read_of_a_tree_is_a_copy():
    tree = tree_of(np.array([1.0, 2.0]))
    tree[np.array([0, 1])][:] = 9
    assert tree.values.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("value", [-0.1, 3.0, 99.0, np.nan, np.inf, [0.5, 3.0], [[-1.0]]], ids=repr)
def test_values_outside_of_the_sum_are_refused(value):
    with pytest.raises(errors.SizeError, match=r"3\.0"):
        tree_of(np.array([1.0, 2.0])).get_prefix_sum_idx(value)


@pytest.mark.parametrize("index", [2, -3, [0, 2], [0.5], "a", [True, False], slice(0, 1)], ids=repr)
def test_numbers_that_do_not_exist_are_refused_and_nothing_is_set(index):
    tree = tree_of(np.array([1.0, 2.0]))
    with pytest.raises(errors.RowIndexError):
        tree[index] = 5.0
    with pytest.raises(errors.RowIndexError):
        _ = tree[index]
    assert tree.values.tolist() == [1.0, 2.0]
    assert tree.reduce() == 3.0


def test_as_many_values_as_indices_are_needed():
    tree = tree_of(np.array([1.0, 2.0]))
    for index, value in (([0, 1], [1.0, 2.0, 3.0]), ([0], [1.0, 2.0])):
        with pytest.raises(ValueError):
            tree[index] = value
    assert tree.values.tolist() == [1.0, 2.0]


def test_a_tree_of_nothing_sums_to_nothing():
    tree = SegmentTree(0)
    assert (len(tree), tree.reduce()) == (0, 0.0)
    with pytest.raises(errors.SizeError):
        tree.get_prefix_sum_idx(0.0)
    with pytest.raises(errors.SizeError):
        SegmentTree(-1)


def test_numbers_may_be_kept_in_an_array_from_elsewhere():
    tree = SegmentTree(20)
    memory = np.zeros(tree.capacity)
    memory[:20] = np.arange(20)
    tree.use(memory)
    assert tree.reduce() == 190.0
    tree[3] = 100.0
    assert memory[3] == 100.0
    tree.values[:] = 1.0
    tree.rebuild()
    assert tree.reduce() == 20.0
    with pytest.raises(errors.SizeError):
        tree.use(np.zeros(tree.capacity + 1))


def test_a_weight_is_the_last_field_of_what_is_sampled():
    batch, _ = prioritized([1.0, 2.0]).sample(3)
    assert isinstance(batch, Batch)
    assert list(batch.keys())[-1] == "weight"


def test_values_that_are_looked_up_in_a_tree_are_left_alone():
    for size in (3, 5000):
        tree = SegmentTree(size)
        tree[np.arange(size)] = np.ones(size)
        index, value, looked_up = np.array([1, 2]), np.array([3.0, 4.0]), np.array([0.5, 2.5, 3.5])
        tree[index] = value
        tree.get_prefix_sum_idx(looked_up)
        assert (index.tolist(), value.tolist(), looked_up.tolist()) == ([1, 2], [3.0, 4.0], [0.5, 2.5, 3.5])


def test_priorities_are_copied():
    buffer = holding("prioritized")
    slots, priorities = np.array([0, 1]), np.array([-2.0, 3.0])
    for new in (priorities, torch.from_numpy(priorities)):
        buffer.update_weight(slots, new)
        assert priorities.tolist() == [-2.0, 3.0]
        assert slots.tolist() == [0, 1]


def test_rows_added_to_a_ring_are_sampled_by_priority():
    buffer = holding("prioritized vector", 1)
    slot = 4 + buffer.buffers[1].add(transition(7)).slots.item()
    assert slot in buffer.sample_indices(500)
    assert buffer[[0, slot]].weight.tolist() == [1.0, 1.0]


def test_no_rows_have_no_weights():
    buffer = PrioritizedVectorReplayBuffer(4, 2, alpha=0.5, beta=0.5)
    buffer.add(transitions([1, 2]))
    assert buffer[[]].weight.shape == (0,)
    assert buffer.sample(-1)[0].weight.shape == (0,)


@pytest.mark.parametrize(
    "name", ["prioritized", "prioritized vector", "prioritized on disk", "prioritized vector on disk"]
)
@pytest.mark.parametrize("as_tensor", [False, True])
def test_priorities_of_rows_that_were_overwritten_since_they_were_sampled_are_left_out(name, as_tensor, tmp_path):
    buffer, ids = made(name, tmp_path), ids_for(name.removesuffix(" on disk"))
    for number in range(4):
        buffer.add(transitions([number, number]), buffer_ids=ids)
    slots = buffer.sample(0)[1]
    added = buffer.add(transitions([8, 9]), buffer_ids=ids).slots
    new = np.arange(1.0, 9.0)
    buffer.update_weight(slots, torch.tensor(new) if as_tensor else new)
    stayed = ~np.isin(slots, added)
    np.testing.assert_allclose(buffer.weight[slots], np.where(stayed, new, 1.0) ** 0.6, rtol=1e-6)
    with pytest.raises(RowAssignmentError, match="priorities of shape"):
        buffer.update_weight(slots, new[:6])
    buffer.update_weight(added, 5.0)
    assert (buffer.weight[added] > 2).all()
    buffer.reset()
    buffer.update_weight(slots, new)
    assert not buffer.weight[slots].any()


PRIORITIZED: dict[str, Any] = {
    "ring": lambda path, **settings: PrioritizedReplayBuffer(4, beta=1.0, **settings),
    "vector": lambda path, **settings: PrioritizedVectorReplayBuffer(4, 2, beta=1.0, **settings),
    "on disk": lambda path, **settings: PrioritizedReplayBuffer(4, beta=1.0, path=path, **settings),
}


@pytest.mark.parametrize("alpha", [1e-300, 0.6, 50.0, 1e6])
@pytest.mark.parametrize("weight_norm", [True, False])
@pytest.mark.parametrize("name", PRIORITIZED)
def test_priorities_that_underflow_can_be_sampled_with_finite_weights(name, weight_norm, alpha, tmp_path):
    buffer = PRIORITIZED[name](tmp_path / "buffer", alpha=alpha, weight_norm=weight_norm)
    for number in range(4):
        buffer.add(transitions([number]), buffer_ids=[number % 2 if name == "vector" else 0])
    for priorities in (np.zeros(4), np.array([0.0, 1e-300, -1e-9, 1.0]), np.array([-0.0, 0.5, 1e-30, 0.0])):
        buffer.update_weight(np.arange(4), priorities)
        for _ in range(4):
            batch, slots = buffer.sample(16)
            assert np.isfinite(batch.weight).all()
            assert (batch.weight > 0).all() or not weight_norm
            assert np.isfinite(buffer.get_weight(slots)).all()
    if name == "on disk":
        buffer.close()
        assert np.isfinite(PrioritizedReplayBuffer.open(tmp_path / "buffer").sample(4)[0].weight).all()


@pytest.mark.parametrize("name", PRIORITIZED)
@pytest.mark.parametrize("priority", [np.nan, np.inf, -np.inf, 1e151, 1e308])
def test_priorities_that_are_no_numbers_or_overflow_are_refused(name, priority, tmp_path):
    for alpha in (0.6, 2.0, 1e300):
        buffer = PRIORITIZED[name](tmp_path / str(alpha), alpha=alpha)
        for number in range(4):
            buffer.add(transitions([number]), buffer_ids=[number % 2 if name == "vector" else 0])
        with pytest.raises(RowAssignmentError, match="must be finite and below 1e150"):
            buffer.update_weight([0, 1], [1.0, priority])
        assert buffer.weight[np.arange(4)].tolist() == [1.0] * 4
    for wrong in (0, -1, np.nan, np.inf):
        with pytest.raises(errors.SettingError, match="alpha"):
            PRIORITIZED[name](tmp_path / "wrong", alpha=wrong)


def uniform_folder(path: Path, kind: Any, sizes: tuple[int, ...]) -> Any:
    """Return the rows of a closed folder without priorities, some of which were overwritten."""
    with closing(kind(*sizes, path=path)) as buffer:
        for i in range(13):
            row = step(float(i), i % 4 == 3)
            buffer.add(row if len(sizes) == 1 else Batch.stack([row, row]))
        return buffer[:]


FOLDERS = [
    (ReplayBuffer, PrioritizedReplayBuffer, (10,)),
    (VectorReplayBuffer, PrioritizedVectorReplayBuffer, (10, 2)),
]


@pytest.mark.parametrize(("kind", "prioritized", "sizes"), FOLDERS)
def test_a_folder_without_priorities_gets_them(kind, prioritized, sizes, tmp_path):
    rows = uniform_folder(tmp_path / "rows", kind, sizes)
    with closing(prioritized.open(tmp_path / "rows", alpha=0.5, beta=0.3)) as buffer:
        assert buffer[:].obs.tolist() == rows.obs.tolist()
        assert buffer[:].weight.tolist() == [1.0] * 10
        buffer.update_weight(np.arange(10), np.full(10, 4.0))
    for alpha in (0.5, None):  # as a run that is started again does
        with closing(prioritized.open(tmp_path / "rows", alpha=alpha)) as buffer:
            np.testing.assert_allclose(buffer.weight.values, 2.0, rtol=1e-6)
            assert state_of(buffer).beta == 0.3
    with pytest.raises(SettingError, match=r"priorities with alpha 0\.5, got alpha=0\.7; leave it out"):
        prioritized.open(tmp_path / "rows", alpha=0.7)
    with pytest.raises(StorageError, match="is expected, got a Prioritized"):
        kind.open(tmp_path / "rows")


def test_a_folder_gets_no_priorities_where_it_cannot(tmp_path):
    rows = uniform_folder(tmp_path / "rows", ReplayBuffer, (10,))
    with pytest.raises(SettingError, match="gets priorities with mode='r\\+' alone"):
        PrioritizedReplayBuffer.open(tmp_path / "rows", "r", alpha=0.5)
    for alpha in (0, -1, "much", math.nan):
        with pytest.raises(SettingError, match="alpha"):
            PrioritizedReplayBuffer.open(tmp_path / "rows", alpha=alpha)
    with pytest.raises(StorageError, match="a VectorReplayBuffer is expected, got a ReplayBuffer"):
        PrioritizedVectorReplayBuffer.open(tmp_path / "rows", alpha=0.5)
    with closing(ReplayBuffer.open(tmp_path / "rows")) as buffer:
        assert buffer[:] == rows
        with pytest.raises(StorageError, match="is being written to by this process"):
            PrioritizedReplayBuffer.open(tmp_path / "rows", alpha=0.5)
