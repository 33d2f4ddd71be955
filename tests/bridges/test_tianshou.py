"""Batches and buffers of Tianshou, and back."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal

from tests.buffers.helpers import BUFFERS, assert_same, assert_same_places, distance, transitions
from tests.strategies import batches
from typedbatch import Batch, RolloutBatch, SampleBatch
from typedbatch._core.lengths import leaves
from typedbatch.bridges.tianshou import buffer_from_tianshou, buffer_to_tianshou, from_tianshou, to_tianshou
from typedbatch.buffers import ReplayBuffer, VectorReplayBuffer
from typedbatch.buffers.state import state_of
from typedbatch.errors import LeafError, StructureError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import tianshou.data as ts


def assert_same_leaves(ours: Batch, theirs: ts.Batch) -> None:
    assert list(ours.__dict__) == list(theirs.__dict__)
    for name, leaf in ours.__dict__.items():
        if isinstance(leaf, Batch):
            assert type(theirs.__dict__[name]) is ts.Batch
            assert_same_leaves(leaf, theirs.__dict__[name])
        else:
            assert theirs.__dict__[name] is leaf


@given(batches())
def test_there_and_back_with_the_very_same_leaves(batch):
    theirs = to_tianshou(batch)
    assert_same_leaves(batch, theirs)
    back = from_tianshou(theirs)
    assert_same_leaves(back, theirs)
    assert type(back) is Batch
    assert [path for path, _ in leaves(back.__dict__)] == [path for path, _ in leaves(batch.__dict__)]


def test_theirs_with_leaves_of_every_kind():
    theirs = ts.Batch(
        array=np.arange(3), tensor=torch.arange(3), nested=ts.Batch(deep={"leaf": np.zeros(3)}),
        objects=np.array(["a", None, {1}], object), dist=Normal(torch.zeros(3), torch.ones(3)), text="text",
        nothing=None, reserved=ts.Batch(),
    )  # fmt: skip
    ours = from_tianshou(theirs)
    assert_same_leaves(ours, theirs)
    assert ours.reserved == Batch()
    assert ours.nested.deep.leaf is theirs.nested.deep.leaf
    del ours.text
    assert ours[1].objects is None
    assert ours[:2].dist.batch_shape == (2,)


def test_rows_of_theirs():
    """Tianshou gives bare numbers there, and a list of batches it keeps as one."""
    row = ts.Batch(a=np.arange(3), b=[{"x": 1}, {"x": 2}, {"x": 3}])[1]
    assert from_tianshou(row) == Batch(a=1, b={"x": 2})


def test_text_and_numbers_are_converted_as_in_every_batch():
    ours = from_tianshou(ts.Batch(names=np.array(["ab", "c"]), number=3.5))
    assert ours.names.dtype == object
    assert ours.names.tolist() == ["ab", "c"]
    assert ours.number.shape == ()


def test_empty_batches():
    assert from_tianshou(ts.Batch()) == Batch()
    assert to_tianshou(Batch()) == ts.Batch()
    nested = to_tianshou(Batch(a={"b": {}}))
    assert type(nested.a.b) is ts.Batch
    assert from_tianshou(nested) == Batch(a={"b": {}})


@pytest.mark.parametrize("name", ["items", "keys", "copy", "a.b", "", "__len__", "shape"])
def test_names_that_are_members(name):
    leaf = np.zeros(2)
    theirs = to_tianshou(Batch({name: leaf, "nested": {name: leaf}}))
    assert theirs.__dict__[name] is theirs.nested.__dict__[name] is leaf
    assert from_tianshou(theirs)[name] is leaf


def test_the_outer_batches_are_new():
    ours = Batch(a={"b": np.zeros(2)})
    theirs = to_tianshou(ours)
    theirs.a.c = np.ones(2)
    back = from_tianshou(theirs)
    del back.a.b
    assert list(ours.a.keys()) == ["b"]
    assert list(theirs.a.get_keys()) == ["b", "c"]


def test_records_and_sample_batches():
    flags = np.zeros(2, bool)
    record = RolloutBatch(
        obs=np.zeros(2), act=np.zeros(2), rew=np.zeros(2), terminated=flags, truncated=flags, obs_next=flags, info={}
    )
    for batch in (record, SampleBatch(obs=np.zeros(2))):
        theirs = to_tianshou(batch)
        assert type(theirs) is ts.Batch
        assert_same_leaves(batch, theirs)


def test_what_tianshou_does_with_it():
    theirs = to_tianshou(Batch(a=np.arange(4), b={"c": torch.arange(4)}))
    assert len(theirs) == 4
    assert from_tianshou(ts.Batch.cat([theirs[:1], theirs[2:]])) == Batch(a=[0, 2, 3], b={"c": torch.tensor([0, 2, 3])})
    assert from_tianshou(ts.Batch.stack([theirs, theirs])).a.tolist() == [[0, 1, 2, 3]] * 2


@pytest.mark.parametrize("given_value", [{"a": 1}, Batch(), None, 3])
def test_what_is_no_batch_of_theirs(given_value: Any):
    with pytest.raises(LeafError, match=r"from_tianshou\(\) takes a Tianshou Batch, got "):
        from_tianshou(given_value)


@pytest.mark.parametrize("given_value", [{"a": 1}, ts.Batch(), None, 3])
def test_what_is_no_batch_of_ours(given_value: Any):
    with pytest.raises(LeafError, match=r"to_tianshou\(\) takes a Batch, got "):
        to_tianshou(given_value)


def test_a_leaf_that_is_no_leaf_is_named():
    theirs = ts.Batch()
    theirs.__dict__["inner"] = ts.Batch()
    theirs.inner.__dict__["bad"] = [torch.zeros(2), torch.zeros(3)]
    with pytest.raises(LeafError, match=r"field 'inner\.bad': a list of tensors is stacked"):
        from_tianshou(theirs)


def test_dicts_in_object_arrays_stay_dicts():
    objects = np.empty(2, object)
    objects[:] = [{"a": 1}, {"b": 2}]
    batch = Batch(n={"rows": np.arange(2)})
    batch.n.__dict__["o"] = objects
    assert from_tianshou(to_tianshou(batch)).n.o is objects


Step = tuple[list[int], list[bool], list[bool]]
SLOTS = 4


@st.composite
def histories(draw: st.DrawFn, rings: int) -> list[Step]:
    """Draw the rows to add: for each step the rings, and the rows that terminate or truncate an episode."""
    steps = []
    for _ in range(draw(st.sampled_from([0, 1, 3, 4, 5, 11]))):
        ids = draw(st.lists(st.integers(0, rings - 1), min_size=1, max_size=rings, unique=True))
        flags = [draw(st.lists(st.booleans(), min_size=len(ids), max_size=len(ids))) for _ in range(2)]
        steps.append((ids, *flags))
    return steps


def add(buffer: Any, history: list[Step], first: int = 0) -> list[Any]:
    """Add the rows to a buffer of either library, and give what it said."""
    said = []
    make: Callable[..., Any] = Batch if isinstance(buffer, ReplayBuffer) else ts.Batch
    for number, (ids, terminated, truncated) in enumerate(history, first):
        numbers = [10.0 * number + ring for ring in ids]
        rows = transitions(numbers, terminated, truncated=np.array(truncated))
        if isinstance(buffer, ts.VectorReplayBuffer | VectorReplayBuffer):
            said.append([np.asarray(one) for one in buffer.add(make(rows.to_dict()), buffer_ids=ids)])
        else:
            said.append([np.asarray(one) for one in buffer.add(make(rows[0].to_dict()))])
    return said


def pair(rings: int, **options: Any) -> tuple[Any, Any]:
    if rings == 1:
        return ReplayBuffer(SLOTS, **options), ts.ReplayBuffer(SLOTS, **options)
    return VectorReplayBuffer(SLOTS * rings, rings, **options), ts.VectorReplayBuffer(SLOTS * rings, rings, **options)


def assert_alike(ours: Any, theirs: Any) -> None:
    """All that both can tell."""
    if not assert_same_places(ours, theirs):
        return
    slots = theirs.sample_indices(0)
    assert sorted(ours.sample_indices(0).tolist()) == sorted(slots.tolist())
    if len(slots):
        assert ours.prev(slots).tolist() == theirs.prev(slots).tolist()
        assert ours.next(slots).tolist() == theirs.next(slots).tolist()
        mine, other = ours[slots], theirs[slots]
        assert list(mine.keys()) == list(other.get_keys())
        for name in mine.keys():
            if theirs.stack_num > 1 and name in ("info", "policy"):  # ours are not stacked, as docs/buffers.md says
                other[name] = other[name][:, -1] if len(other[name].get_keys()) else other[name]
            assert_same(mine[name], other[name], name)
    drawn, at = theirs.sample(5) if len(slots) else (None, None)
    if drawn is not None:
        assert_same(ours[at].obs, drawn.obs)
        assert set(ours.sample(5)[1].tolist()) <= set(slots.tolist())


OPTIONS = [{}, {"stack_num": 2}, {"ignore_obs_next": True}, {"stack_num": 3, "ignore_obs_next": True}]
OPTIONS += [{"stack_num": 2, "sample_avail": True}]
cases = pytest.mark.parametrize("options", OPTIONS, ids=lambda options: ",".join(options) or "plain")
sizes = pytest.mark.parametrize("rings", [1, 3])


@sizes
@cases
@settings(max_examples=25)
@given(data=st.data())
def test_theirs_as_ours(data, rings, options):
    theirs = pair(rings, **options)[1]
    add(theirs, data.draw(histories(rings)))
    assert_alike(buffer_from_tianshou(theirs), theirs)


@pytest.mark.filterwarnings("ignore:with ignore_obs_next=True")
@sizes
@cases
@settings(max_examples=25)
@given(data=st.data())
def test_ours_as_theirs(data, rings, options):
    ours = pair(rings, **options)[0]
    add(ours, data.draw(histories(rings)))
    assert_alike(ours, buffer_to_tianshou(ours))


@sizes
@settings(max_examples=25)
@given(data=st.data())
def test_running_episodes_go_on(data, rings):
    before, after = data.draw(histories(rings)), data.draw(histories(rings))
    ours, theirs = pair(rings)
    taken, given_away = pair(rings)
    for buffer in (ours, theirs, taken, given_away):
        add(buffer, before)
    expected = add(theirs, after, 50)
    for buffer in (buffer_from_tianshou(given_away), buffer_to_tianshou(taken), ours):
        for said, right in zip(add(buffer, after, 50), expected, strict=True):
            for one, other in zip(said, right, strict=True):
                assert one.tolist() == other.tolist()
        if isinstance(buffer, ReplayBuffer):
            assert_alike(buffer, theirs)


@sizes
@settings(max_examples=25)
@given(data=st.data())
def test_there_and_back(data, rings):
    ours, same = pair(rings)[0], pair(rings)[0]
    history, more = data.draw(histories(rings)), data.draw(histories(rings))
    add(ours, history), add(same, history)
    back = buffer_from_tianshou(buffer_to_tianshou(ours))
    assert type(back) is type(ours)
    assert [[one.tolist() for one in said] for said in add(back, more, 50)] == [
        [one.tolist() for one in said] for said in add(same, more, 50)
    ]
    assert len(back) == len(same)
    assert not len(back) or back[:] == same[:]


@sizes
def test_the_arrays_are_shared(rings):
    ours, theirs = pair(rings)
    history: list[Step] = [(list(range(rings)), [False] * rings, [False] * rings)] * 3
    add(ours, history), add(theirs, history)
    for one, other in [(buffer_from_tianshou(theirs), theirs), (ours, buffer_to_tianshou(ours))]:
        columns = dict(leaves(state_of(one).columns.__dict__))
        assert np.shares_memory(columns["obs"], other.obs)
        assert np.shares_memory(columns["rew"], other.rew)
        assert np.shares_memory(columns["info.t"], other.info.t)
        other.obs[0] = 77
        assert one[0].obs.tolist() == [77, 77]


@pytest.mark.parametrize("options", [*OPTIONS, {"save_only_last_obs": True, "ignore_obs_next": True}])
def test_options_are_taken_over(options):
    ours, theirs = pair(2, **options)
    assert {**buffer_to_tianshou(ours).options} == theirs.options
    assert buffer_to_tianshou(buffer_from_tianshou(theirs)).options == theirs.options


def test_only_the_last_frame_is_kept_on_both_sides():
    frames = np.arange(8.0).reshape(4, 2)
    theirs = ts.ReplayBuffer(4, stack_num=2, save_only_last_obs=True, ignore_obs_next=True)
    rows = transitions([1])[0].to_dict()
    theirs.add(ts.Batch({**rows, "obs": frames}))
    ours = buffer_from_tianshou(theirs)
    ours.add(Batch({**rows, "obs": frames + 1}))
    assert ours[:].obs.tolist() == [[[6, 7], [6, 7]], [[6, 7], [7, 8]]]


def test_rewards_of_several_numbers():
    theirs, rows = ts.ReplayBuffer(4), transitions([1, 2])
    for row in (rows[0], rows[1]):
        theirs.add(ts.Batch({**row.to_dict(), "rew": np.array([1.0, 2.0])}))
    ours = buffer_from_tianshou(theirs)
    added = ours.add(Batch({**transitions([3], True)[0].to_dict(), "rew": np.array([5.0, 5.0])}))
    assert added.ep_return.tolist() == [[7.0, 9.0]]
    assert added.ep_len.tolist() == [3]


def test_integer_rewards_become_floats():
    data = {name: np.arange(3) for name in ("obs", "act", "rew", "obs_next")}
    flags = np.array([False, False, True])
    theirs = ts.ReplayBuffer.from_data(**data, terminated=flags, truncated=np.zeros(3, bool), done=flags)
    ours = buffer_from_tianshou(theirs)
    assert ours[:].rew.tolist() == [0.0, 1.0, 2.0]
    assert ours[:].rew.dtype == float


def test_policy_and_object_columns():
    theirs = ts.ReplayBuffer(3)
    for text in "abcd":
        row = transitions([1])[0].to_dict()
        theirs.add(ts.Batch({**row, "obs": text, "obs_next": text, "policy": {"hidden": np.zeros(2)}}))
    ours = buffer_from_tianshou(theirs)
    assert ours[ours.sample_indices(0)].obs.tolist() == ["b", "c", "d"]
    assert ours[:].policy.hidden.shape == (3, 2)


def test_an_empty_buffer_takes_rows():
    for rings in (1, 2):
        ours, theirs = pair(rings)
        history: list[Step] = [(list(range(rings)), [True] * rings, [False] * rings)] * 2
        taken, given_away = buffer_from_tianshou(theirs), buffer_to_tianshou(ours)
        add(taken, history), add(given_away, history)
        assert_alike(taken, given_away)
        assert len(taken) == 2 * rings


@pytest.mark.parametrize("name", ["cached", "prioritized", "prioritized vector", "hindsight", "hindsight vector"])
def test_ours_of_other_classes_are_refused(name):
    buffer = BUFFERS[name]()
    with pytest.raises(LeafError, match=f"a ReplayBuffer or a VectorReplayBuffer, got {type(buffer).__name__}$"):
        buffer_to_tianshou(buffer)


def test_theirs_without_priorities_and_goals():
    for buffer in (
        ts.PrioritizedReplayBuffer(4, 0.6, 0.4),
        ts.HERReplayBuffer(4, distance, horizon=4),
        ts.PrioritizedVectorReplayBuffer(8, 2, alpha=0.6, beta=0.4),
    ):
        many = isinstance(buffer, ts.ReplayBufferManager)
        assert type(buffer_from_tianshou(buffer)) is (VectorReplayBuffer if many else ReplayBuffer)


def test_rings_of_different_sizes_are_refused():
    with pytest.raises(StructureError, match="rings of different sizes, such as CachedReplayBuffer"):
        buffer_from_tianshou(ts.CachedReplayBuffer(ts.ReplayBuffer(4), 2, 2))


def test_a_column_of_ones_own_is_refused():
    ours = ReplayBuffer(4)
    ours.add(Batch({**transitions([1])[0].to_dict(), "logp": 0.5}))
    with pytest.raises(StructureError, match="support only their own columns, got .*logp"):
        buffer_to_tianshou(ours)


def test_what_is_no_buffer():
    with pytest.raises(LeafError, match=r"buffer_from_tianshou\(\) takes a Tianshou buffer, got ReplayBuffer"):
        buffer_from_tianshou(ReplayBuffer(4))  # type: ignore[arg-type]
    with pytest.raises(LeafError, match=r"buffer_to_tianshou\(\) takes a ReplayBuffer, got Batch"):
        buffer_to_tianshou(Batch())  # type: ignore[arg-type]


def test_a_buffer_with_a_cache_is_refused_whatever_its_sizes():
    with pytest.raises(StructureError, match="CachedReplayBuffer"):
        buffer_from_tianshou(ts.CachedReplayBuffer(ts.ReplayBuffer(4), 2, 4))
