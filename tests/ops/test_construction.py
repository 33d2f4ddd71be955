"""Sources of a batch: keywords, dicts, other batches, and sequences of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.helpers import assert_array, assert_shows
from typedbatch import Batch, MultiAgentBatch, ObsBatch, Ragged, SampleBatch, errors
from typedbatch.buffers import HERReplayBuffer, ReplayBuffer, VectorReplayBuffer


@pytest.mark.parametrize(
    "batch",
    [Batch(a=4, b=[5, 5], c="hello"), Batch({"a": 4, "b": [5, 5], "c": "hello"}), Batch({"a": 4}, b=[5, 5], c="hello")],
    ids=["keywords", "dict", "both"],
)
def test_keywords_and_a_dict_make_the_same_batch(batch):
    assert_shows(
        batch,
        """
        Batch(
            a: array(4),
            b: array([5, 5]),
            c: 'hello',
        )
        """,
    )


def test_keywords_win_over_the_dict():
    assert Batch({"a": 1, "b": 2}, a=3).a == 3


def test_batches_nest_as_batches_and_as_dicts():
    expected = """
        Batch(
            obs: Batch(
                     x: array(1),
                     y: array(2),
                 ),
            act: array(5),
        )
        """
    assert_shows(Batch(obs=Batch(x=1, y=2), act=5), expected)
    assert_shows(Batch(obs={"x": 1, "y": 2}, act=5), expected)


def test_keywords_join_a_dict_and_lists_of_none_are_objects():
    batch = Batch({"a": [4, 4], "b": [5, 5]}, c=[None, None])
    assert_shows(
        batch,
        """
        Batch(
            a: array([4, 4]),
            b: array([5, 5]),
            c: array([None, None], dtype=object),
        )
        """,
    )
    assert repr(Batch(a=[4, 4], b=[5, 5], c=[None, None])) == repr(batch)


def test_a_nested_dict_prints_as_a_tree():
    batch = Batch(
        {
            "action": np.array([1.0, 2.0, 3.0]),
            "reward": 3.66,
            "obs": {"camera": np.zeros((3, 3)), "sensory": np.ones(5)},
        }
    )
    assert_shows(
        batch,
        """
        Batch(
            action: array([1., 2., 3.]),
            reward: array(3.66),
            obs: Batch(
                     camera: array([[0., 0., 0.],
                                    [0., 0., 0.],
                                    [0., 0., 0.]]),
                     sensory: array([1., 1., 1., 1., 1.]),
                 ),
        )
        """,
    )
    assert batch.obs.camera.shape == (3, 3)
    assert str(batch.obs.sensory) == "[1. 1. 1. 1. 1.]"


def test_text_beside_nested_data_stays_text():
    data = {"action": np.array([1.0, 2.0, 3.0]), "obs": {"rgb_obs": np.zeros((3, 3)), "flatten_obs": np.ones(5)}}
    batch = Batch(data, extra="extra_string")
    assert list(batch.keys()) == ["action", "obs", "extra"]
    assert batch.extra == "extra_string"
    assert type(batch.obs) is Batch
    assert_array(batch.obs.rgb_obs, np.zeros((3, 3)))


def test_nested_and_flat_structure_hold_the_same_arrays():
    camera = np.zeros((32, 4, 4, 3))
    nested = Batch(obs=Batch(camera=camera, position=np.zeros((32, 3))), act=np.zeros(32))
    flat = Batch(camera=camera, position=np.zeros((32, 3)), act=np.zeros(32))
    assert nested.obs.camera is flat.camera
    assert len(nested) == len(flat) == 32


@pytest.mark.parametrize(
    "rows",
    [
        [{"a": 1, "b": 2}, {"a": 3, "b": 4}],
        ({"a": 1, "b": 2}, {"a": 3, "b": 4}),
        np.array([{"a": 1, "b": 2}, {"a": 3, "b": 4}], dtype=object),
        [Batch(a=1, b=2), Batch(a=3, b=4)],
        [Batch(a=1, b=2), {"a": 3, "b": 4}],
    ],
    ids=["list", "tuple", "object array", "Batches", "mixed"],
)
def test_a_sequence_of_dicts_or_batches_is_stacked_one_row_each(rows):
    assert_shows(
        Batch(rows),
        """
        Batch(
            a: array([1, 3]),
            b: array([2, 4]),
        )
        """,
    )


def test_numbers_and_text_of_dict_rows_become_columns():
    batch = Batch([{"a": 0.0, "b": "hello"}, {"a": 1.0, "b": "world"}])
    assert_shows(
        batch,
        """
        Batch(
            a: array([0., 1.]),
            b: array(['hello', 'world'], dtype=object),
        )
        """,
    )


def test_nested_rows_are_stacked_at_every_depth():
    data = {"action": np.array([1.0, 2.0, 3.0]), "reward": 3.66, "obs": {"rgb_obs": np.zeros((3, 3))}}
    batch = Batch([data] * 3)
    assert batch.obs.rgb_obs.shape == (3, 3, 3)
    assert batch.action.shape == (3, 3)
    assert_array(batch.reward, [3.66, 3.66, 3.66])


def test_rows_of_parallel_environments_make_one_batch():
    rows = [
        {
            "act": act,
            "rew": 0.0,
            "obs": np.ones((3, 3)),
            "info": {"done": act % 2, "failed": False},
            "terminated": False,
            "truncated": False,
        }
        for act in (7, 4, 0, 3)
    ]
    batch = Batch(rows)
    assert batch.shape == [4]
    assert batch.obs.shape == (4, 3, 3)
    assert_array(batch.act, [7, 4, 0, 3])
    assert_array(batch.info.done, [1, 0, 0, 1])
    assert batch.terminated.dtype == bool
    assert batch[0].act == 7
    assert_array(batch[[0, 3]].act, [7, 3])
    assert_array(batch[-2:].act, [0, 3])


def test_steps_gathered_in_a_list_become_an_episode():
    steps = [{"obs": np.full(4, float(i)), "act": i, "rew": i / 2} for i in range(5)]
    episode = Batch(steps)
    assert episode.shape == [5]
    assert episode.obs.shape == (5, 4)
    assert_array(episode.rew, [0.0, 0.5, 1.0, 1.5, 2.0])


def test_arrays_are_kept_by_reference_unless_a_copy_is_asked_for():
    array = np.array([1, 2, 3])
    Batch(a=array).a[0] = 999
    assert_array(array, [999, 2, 3])
    array = np.array([1, 2, 3])
    Batch(a=array, copy=True).a[0] = 999
    assert_array(array, [1, 2, 3])


@pytest.mark.parametrize("data", [None, {}, [], (), Batch(), np.array([], dtype=object)], ids=repr)
def test_nothing_makes_an_empty_batch(data):
    assert list(Batch(data).keys()) == []


@pytest.mark.parametrize(
    "data",
    [5, 0, False, "abc", [1, 2], [None], [{"a": 1}, 5], np.zeros(3), {1, 2}, iter([]), object()],
    ids=lambda data: type(data).__name__,
)
def test_what_has_no_names_is_not_silently_an_empty_batch(data):
    with pytest.raises(errors.LeafError) as caught:
        Batch(data)
    assert isinstance(caught.value, TypeError)


ON_INSTANCES: dict[str, Any] = {
    "Batch.cat": lambda: Batch(a=[1]).cat([Batch(a=[2])]),
    "Batch.stack": lambda: Batch(a=[1]).stack([Batch(a=[2])]),
    "Batch.from_rows": lambda: Batch(a=[1]).from_rows([{"a": 1}]),
    "ObsBatch.from_rows": lambda: ObsBatch(obs=np.ones(1), info=Batch()).from_rows(rows=[]),
    "ObsBatch.cat": lambda: ObsBatch(obs=np.ones(1), info=Batch()).cat([]),
    "SampleBatch.cat": lambda: SampleBatch({"obs": [1]}).cat([]),
    "MultiAgentBatch.wrap_as_needed": lambda: MultiAgentBatch({}, 0).wrap_as_needed({}, 0),
    "Ragged.from_lists": lambda: Ragged.from_lists({"a": [[1]]}).from_lists([[1]]),
    "Ragged.from_padded": lambda: Ragged.from_lists({"a": [[1]]}).from_padded(Batch(), None),
    "Ragged.unpack": lambda: Ragged.from_lists({"a": [[1]]}).unpack(None),
    "ReplayBuffer.open": lambda: ReplayBuffer(1).open("path"),
    "ReplayBuffer.load_hdf5": lambda: ReplayBuffer(1).load_hdf5("path"),
    "VectorReplayBuffer.from_data": lambda: VectorReplayBuffer(2, 1).from_data(*"obs act"),
    "HERReplayBuffer.open": lambda: HERReplayBuffer(1, max, 1).open("path", compute_reward_fn=max),
    "HERReplayBuffer.load_hdf5": lambda: HERReplayBuffer(1, max, 1).load_hdf5("path", compute_reward_fn=max),
}


@pytest.mark.parametrize("name", ON_INSTANCES)
def test_what_makes_a_new_object_is_not_called_on_another(name):
    with pytest.raises(errors.FieldNameError, match=rf"call it on the class: {name}\(\.\.\.\)"):
        ON_INSTANCES[name]()


def test_a_field_may_have_the_name_of_what_is_called_on_the_class():
    batch = Batch({"cat": [1], "stack": [2]})
    assert (batch.cat.tolist(), batch.stack.tolist()) == ([1], [2])
    assert type(batch).cat([batch, batch]).cat.tolist() == [1, 1]
