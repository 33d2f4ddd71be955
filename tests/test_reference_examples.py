"""What the reference pages about Batch show, as outcomes: the newest page decides, DESIGN 10 and 11 overrule it."""

from __future__ import annotations

import copy
import pickle
from textwrap import dedent

import numpy as np
import pytest
import torch
from torch.distributions import Bernoulli, Categorical, Independent, Normal

from typedbatch import (
    ActBatchProtocol,
    Batch,
    ObsBatchProtocol,
    RolloutBatchProtocol,
    validate,
)
from typedbatch.distributions import dist_to_atleast_2d


def assert_shows(value: object, text: str) -> None:
    shown = [line.rstrip() for line in repr(value).splitlines()]
    assert shown == [line.rstrip() for line in dedent(text).strip().splitlines()]


def assert_array(value: object, expected: object, dtype: object = None) -> None:
    assert type(value) is np.ndarray
    np.testing.assert_array_equal(value, expected)
    if dtype is not None:
        assert value.dtype == np.dtype(dtype)


def transition(**changes: object) -> dict[str, object]:
    fields: dict[str, object] = {
        "obs": np.array([[1.0, 2.0], [3.0, 4.0]]),
        "obs_next": np.array([[2.0, 3.0], [4.0, 5.0]]),
        "act": np.array([0, 1]),
        "rew": np.array([1.0, 2.0]),
        "terminated": np.array([False, True]),
        "truncated": np.array([False, False]),
        "info": np.array([{}, {}], dtype=object),
    }
    return fields | changes


# ---- construction ----------------------------------------------------------------------------------------------------


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


def test_a_list_row_that_mixes_kinds_keeps_its_values():
    row = Batch([{"a": {"b": [0.0, "info"]}}])[0]
    assert_shows(
        row,
        """
        Batch(
            a: Batch(
                   b: array([0.0, 'info'], dtype=object),
               ),
        )
        """,
    )
    assert type(row.a.b[0]) is float


def test_arrays_are_kept_by_reference_unless_a_copy_is_asked_for():
    array = np.array([1, 2, 3])
    Batch(a=array).a[0] = 999
    assert_array(array, [999, 2, 3])
    array = np.array([1, 2, 3])
    Batch(a=array, copy=True).a[0] = 999
    assert_array(array, [1, 2, 3])


def test_a_batch_of_a_batch_is_a_shallow_copy():
    first = Batch(a=np.zeros(2), obs={"x": np.ones(2)})
    second = Batch(first)
    assert second is not first
    assert second.a is first.a
    assert second.obs.x is first.obs.x
    second.new, second.obs.new = 1, 1
    assert "new" not in first
    assert "new" not in first.obs


# ---- content rules ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected", "dtype"),
    [
        (5, 5, "int64"),
        (3.14, 3.14, "float64"),
        (True, True, "bool"),
        (np.int32(1), 1, "int32"),
        (np.float64(2.3), 2.3, "float64"),
        (np.bool_(True), True, "bool"),
        ([1, 2, 3], [1, 2, 3], "int64"),
        ([5.0, np.nan], [5.0, np.nan], "float64"),
        ((5, 5), [5, 5], "int64"),
        ([False, True], [False, True], "bool"),
        ([None, None], [None, None], object),
        (["x", "y"], ["x", "y"], object),
    ],
    ids=repr,
)
def test_numbers_and_lists_become_arrays(value, expected, dtype):
    assert_array(Batch(a=value).a, expected, dtype)


def test_a_number_is_a_zero_dimensional_array():
    assert Batch(a=4).a.shape == ()


@pytest.mark.parametrize("value", [[1, "hello", None], ("a", -2, -3), [2.0, "st"]], ids=repr)
def test_mixed_lists_keep_their_values_in_an_object_array(value):
    stored = Batch(a=value).a
    assert stored.dtype == object
    assert [(type(x), x) for x in stored] == [(type(x), x) for x in value]


@pytest.mark.parametrize("value", [None, "hello", {1, 2}, len], ids=repr)
def test_what_is_no_number_stays_what_it_is(value):
    assert Batch(a=value).a is value


def test_a_dict_becomes_a_batch_also_by_assignment():
    batch = Batch(first={"x": 1, "y": 2})
    batch.second = {"x": {"y": [1, 2]}}
    assert type(batch.first) is Batch
    assert type(batch.second.x) is Batch
    assert_array(batch.second.x.y, [1, 2])


def test_assignment_converts_as_the_constructor_does():
    batch = Batch()
    batch.key1 = "value"
    batch.key2 = np.array([1, 2, 3])
    batch["key3"] = [1, "hello", None]
    assert list(batch.keys()) == ["key1", "key2", "key3"]
    assert batch.key3.dtype == object


def test_tensors_stay_tensors_and_a_list_of_them_is_stacked():
    tensor = torch.zeros(2)
    assert Batch(a=tensor).a is tensor
    assert Batch(a=[tensor, tensor + 1]).a.tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_arrays_of_dicts_become_a_nested_batch():
    batch = Batch(info=np.array([{"t": 1}, {"t": 2}], dtype=object))
    assert type(batch.info) is Batch
    assert_array(batch.info.t, [1, 2])


def test_ragged_arrays_in_a_list():
    ragged = Batch(a=[np.zeros((2, 3)), np.zeros((3, 3))]).a
    assert ragged.dtype == object
    assert [x.shape for x in ragged] == [(2, 3), (3, 3)]
    with pytest.raises(TypeError):
        Batch(a=[np.zeros((3, 2)), np.zeros((3, 3))])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Batch({1: "value", 2: "other"}),
        lambda: Batch(a={1: 2}),
        lambda: Batch([{1: 2}]),
        lambda: Batch().update({1: 2}),
    ],
)
def test_names_that_are_no_strings_are_refused(make):
    with pytest.raises(AssertionError, match="string"):
        make()


def test_names_that_are_strings_are_fine():
    assert list(Batch({"key1": "value", "key2": "other"}).keys()) == ["key1", "key2"]


@pytest.mark.parametrize(
    "value", [5, "abc", [1, 2], np.zeros(3), iter([])], ids=["int", "str", "list", "array", "iter"]
)
def test_data_without_names_is_refused(value):
    with pytest.raises(TypeError):
        Batch(value)


# ---- access ----------------------------------------------------------------------------------------------------------


def test_a_field_reads_the_same_as_attribute_and_item():
    batch = Batch(a=[1, 2, 3], b=[4, 5, 6])
    assert batch.a is batch["a"]
    assert str(batch.a) == "[1 2 3]"


def test_chained_names_reach_a_leaf():
    assert_array(Batch(a={"b": {"c": [1, 2]}}).a.b.c, [1, 2])


def test_keys_values_and_items_are_those_of_a_dict():
    batch = Batch(a=4, b=[5, 5])
    assert list(batch.keys()) == list(batch.get_keys()) == ["a", "b"]
    assert [value.tolist() for value in batch.values()] == [4, [5, 5]]
    assert {key: value.tolist() for key, value in batch.items()} == {"a": 4, "b": [5, 5]}


def test_update_sets_several_fields():
    batch = Batch(a=4, b=[5, 5])
    batch.update(c=1, d=2, e=3)
    assert_shows(
        batch,
        """
        Batch(
            a: array(4),
            b: array([5, 5]),
            c: array(1),
            d: array(2),
            e: array(3),
        )
        """,
    )


def test_fields_are_added_replaced_and_deleted():
    batch = Batch({"a": [4, 4], "b": (5, 5)})
    batch.c = Batch(c1=np.arange(3), c2=False)
    del batch.a
    batch.b = np.array([3, 4, 5])
    assert_shows(
        batch,
        """
        Batch(
            b: array([3, 4, 5]),
            c: Batch(
                   c1: array([0, 1, 2]),
                   c2: array(False),
               ),
        )
        """,
    )
    assert batch["c"] is batch.c
    assert "c" in batch
    assert "a" not in batch


def test_iteration_is_over_rows_and_not_over_names():
    rows = list(Batch(a=[1, 2, 3], b=[4, 5, 6]))
    assert [type(row) for row in rows] == [Batch] * 3
    assert_shows(
        rows[1],
        """
        Batch(
            a: 2,
            b: 5,
        )
        """,
    )
    assert [(row.a, row.b) for row in rows] == [(1, 4), (2, 5), (3, 6)]


def test_a_row_holds_numpy_scalars():
    row = Batch(a=[1, 2, 3], b=[True, False, True])[0]
    assert type(row.a) is np.int64
    assert type(row.b) is np.bool_


def test_iteration_gives_rows_of_arrays():
    batch = Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=[[5.0, -5.0], [1.0, -2.0]])
    assert [row.a.tolist() for row in batch] == [[0.0, 2.0], [1.0, 3.0]]


def test_iteration_ends_with_the_shortest_field():
    batch = Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=[[5, -5]])
    assert [row.a.tolist() for row in batch] == [[0.0, 2.0]]


def test_list_gives_the_rows():
    batch = Batch(a=np.array([[0.0, 3.0], [1.0, 4.0]]), b=[[5, -4], [1, -1]])
    assert_shows(
        list(batch),
        """
        [Batch(
            a: array([0., 3.]),
            b: array([ 5, -4]),
        ), Batch(
            a: array([1., 4.]),
            b: array([ 1, -1]),
        )]
        """,
    )


# ---- indexing --------------------------------------------------------------------------------------------------------


def square() -> Batch:
    return Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=[[5.0, -5.0], [1.0, -2.0]])


def test_length_and_shape_of_equal_fields():
    assert len(square()) == 2
    assert square().shape == [2, 2]


@pytest.mark.parametrize(
    ("index", "a", "b"),
    [
        (0, [0.0, 2.0], [5.0, -5.0]),
        (slice(None, 1), [[0.0, 2.0]], [[5.0, -5.0]]),
        ([0, 1], [[0.0, 2.0], [1.0, 3.0]], [[5.0, -5.0], [1.0, -2.0]]),
        ((slice(None), 0), [0.0, 1.0], [5.0, 1.0]),
        (np.array([False, True]), [[1.0, 3.0]], [[1.0, -2.0]]),
        (torch.tensor([1, 0]), [[1.0, 3.0], [0.0, 2.0]], [[1.0, -2.0], [5.0, -5.0]]),
        (np.int64(1), [1.0, 3.0], [1.0, -2.0]),
        ((..., 1), [2.0, 3.0], [-5.0, -2.0]),
        (None, [[[0.0, 2.0], [1.0, 3.0]]], [[[5.0, -5.0], [1.0, -2.0]]]),
    ],
    ids=str,
)
def test_an_index_goes_to_every_field(index, a, b):
    part = square()[index]
    assert list(part.keys()) == ["a", "b"]
    assert_array(part.a, a)
    assert_array(part.b, b)


def test_rows_print_without_numpy_type_names():
    assert_shows(
        square()[[0, 1]],
        """
        Batch(
            a: array([[0., 2.],
                      [1., 3.]]),
            b: array([[ 5., -5.],
                      [ 1., -2.]]),
        )
        """,
    )


def test_a_column_of_every_field_is_changed_in_place():
    batch = square()
    batch[:, 1] += 10
    assert_shows(
        batch,
        """
        Batch(
            a: array([[ 0., 12.],
                      [ 1., 13.]]),
            b: array([[5., 5.],
                      [1., 8.]]),
        )
        """,
    )


def test_a_column_is_changed_in_place_when_lengths_differ():
    batch = Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=[[5, -5]])
    assert batch.shape == [1, 2]
    batch[:, 1] += 1
    assert_shows(
        batch,
        """
        Batch(
            a: array([[0., 3.],
                      [1., 4.]]),
            b: array([[ 5, -4]]),
        )
        """,
    )


def test_an_integer_field_stays_integer_when_a_column_is_changed():
    batch = Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=[[5, -5], [1, -2]])
    batch[:, 1] += 1
    assert_array(batch.b, [[5, -4], [1, -1]], "int64")


def test_indices_of_a_field_with_three_dimensions():
    batch = Batch(a=np.arange(30.0).reshape(5, 3, 2))
    assert batch[0].a.shape == (3, 2)
    assert batch[:, 0].a.shape == (5, 2)
    assert batch[[0, 2, 4]].a.shape == (3, 3, 2)
    assert_array(batch[[0, 2, 4]].a, batch.a[[0, 2, 4]])


def test_a_row_that_lacks_fields_zeroes_those():
    batch = Batch(a=[1, 2], f=[1.5, 2.5], s=["x", "y"], n={"k": [7, 8]})
    batch[0] = {"a": 9}
    assert_array(batch.a, [9, 2])
    assert_array(batch.f, [0.0, 2.5])
    assert_array(batch.s, [None, "y"])
    assert_array(batch.n.k, [0, 8])


# ---- stack, cat, split -----------------------------------------------------------------------------------------------


def test_stack_adds_a_dimension():
    stacked = Batch.stack(
        [Batch(a=np.array([1, 2]), b=np.array([5, 6])), Batch(a=np.array([3, 4]), b=np.array([7, 8]))]
    )
    assert_shows(
        stacked,
        """
        Batch(
            a: array([[1, 2],
                      [3, 4]]),
            b: array([[5, 6],
                      [7, 8]]),
        )
        """,
    )
    assert stacked.shape == [2, 2]


def test_cat_extends_the_rows():
    joined = Batch.cat([Batch(a=np.array([1, 2]), b=np.array([5, 6])), Batch(a=np.array([3, 4]), b=np.array([7, 8]))])
    assert_shows(
        joined,
        """
        Batch(
            a: array([1, 2, 3, 4]),
            b: array([5, 6, 7, 8]),
        )
        """,
    )
    assert joined.shape == [4]


def test_split_in_order_ends_with_the_rest():
    pieces = list(Batch(a=np.arange(10), b=np.arange(10, 20)).split(size=3, shuffle=False))
    assert [piece.a.tolist() for piece in pieces] == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]
    assert [piece.b.tolist() for piece in pieces] == [[10, 11, 12], [13, 14, 15], [16, 17, 18], [19]]
    assert [len(piece) for piece in pieces] == [3, 3, 3, 1]


def test_split_shuffles_by_default_and_keeps_rows_together():
    large = Batch(obs=np.arange(400).reshape(100, 4), act=np.arange(100))
    first = next(large.split(32))
    assert len(first) == 32
    assert_array(first.obs[:, 0], first.act * 4)
    everything = Batch.cat(list(large.split(32)))
    assert sorted(everything.act.tolist()) == list(range(100))
    np.random.seed(3)
    assert not np.array_equal(Batch.cat(list(large.split(32))).act, np.arange(100))


def test_scalars_stack_to_rows_which_split_and_join_again():
    data = Batch.stack((Batch(a=np.array([0.0, 2.0]), b=5), Batch(a=np.array([1.0, 3.0]), b=-5)))
    expected = """
        Batch(
            a: array([[0., 2.],
                      [1., 3.]]),
            b: array([ 5, -5]),
        )
        """
    assert_shows(data, expected)
    pieces = list(data.split(1, False))
    assert_shows(
        pieces,
        """
        [Batch(
            a: array([[0., 2.]]),
            b: array([5]),
        ), Batch(
            a: array([[1., 3.]]),
            b: array([-5]),
        )]
        """,
    )
    assert_shows(Batch.cat(pieces), expected)


def test_cat_of_rows_made_from_dicts_and_batches():
    first = Batch(a=[{"b": np.float64(1.0), "d": Batch(e=np.array(3.0))}])
    second = Batch(a=[{"b": np.float64(4.0), "d": {"e": np.array(6.0)}}])
    joined = Batch.cat([first, second])
    assert_array(joined.a.b, [1.0, 4.0])
    assert_array(joined.a.d.e, [3.0, 6.0])
    assert_array(first.a.b, [1.0])


def stacked_along_axis_1() -> Batch:
    first = Batch(a=np.zeros((3, 2)), b=np.ones((2, 3)), c=Batch(d=[[1], [2]]))
    second = Batch(a=np.ones((3, 2)), b=np.ones((2, 3)), c=Batch(d=[[0], [3]]))
    return Batch.stack((first, second), axis=1)


def test_stack_along_another_axis():
    stacked = stacked_along_axis_1()
    assert stacked.a.shape == (3, 2, 2)
    assert_array(stacked.a[:, 0], np.zeros((3, 2)))
    assert_array(stacked.a[:, 1], np.ones((3, 2)))
    assert stacked.b.shape == (2, 2, 3)
    assert_array(stacked.c.d, [[[1], [0]], [[2], [3]]])


def test_a_batch_of_unequal_fields_splits_into_as_many_rows_as_it_has():
    # The 1.x page splits this very batch, whose fields have 3, 2 and 2 rows.
    stacked = stacked_along_axis_1()
    assert [len(piece) for piece in stacked.split(1, shuffle=True)] == [1] * len(stacked) == [1, 1]


def test_arrays_and_tensors_are_joined_side_by_side():
    zeros = Batch(a=np.arange(2), b=torch.zeros((2, 2)))
    ones = Batch(a=np.arange(2), b=torch.ones((2, 2)))
    joined = Batch.cat([zeros, ones, zeros])
    assert_array(joined.a, [0, 1, 0, 1, 0, 1])
    assert type(joined.b) is torch.Tensor
    assert joined.b[:, 0].tolist() == [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]


def test_the_methods_with_an_underscore_grow_the_batch_itself():
    base, one, two = Batch(a=[1]), Batch(a=[2]), Batch(a=[3])
    grown = copy.deepcopy(base)
    grown.cat_([one, two])
    assert grown == Batch.cat([base, one, two])
    grown = copy.deepcopy(base)
    grown.stack_([one, two])
    assert grown == Batch.stack([base, one, two])
    alias, listed = copy.deepcopy(base), copy.deepcopy(base)
    alias.cat_(one)
    listed.cat_([one])
    assert alias == listed


def test_growing_a_batch_of_reserved_fields_equals_joining_with_it():
    base, more = Batch(a=Batch()), Batch(a=[1])
    joined = Batch.cat([base, more])
    base.cat_([more])
    assert base == joined == Batch(a=[1])


def test_new_rows_extend_a_batch():
    batch = Batch(obs=np.array([[1, 2], [3, 4]]), act=np.array([0, 1]))
    batch.cat_(Batch(obs=np.array([[5, 6]]), act=np.array([1])))
    assert len(batch) == 3
    assert_array(batch.obs, [[1, 2], [3, 4], [5, 6]])
    assert_array(batch.act, [0, 1, 1])


def test_cat_takes_no_axis():
    with pytest.raises(TypeError):
        Batch.cat([Batch(a=[[1]])], axis=1)


# ---- conversion ------------------------------------------------------------------------------------------------------


def test_conversion_in_place_there_and_back():
    batch = Batch(a=np.zeros((3, 4)), b=np.ones(5))
    batch.to_torch_(dtype=torch.float32, device="cpu")
    assert type(batch.a) is torch.Tensor
    assert batch.a.dtype == batch.b.dtype == torch.float32
    assert batch.a.shape == (3, 4)
    batch.to_numpy_()
    assert_array(batch.a, np.zeros((3, 4)), "float32")


def test_conversion_makes_a_new_batch():
    batch = Batch(a=np.zeros((3, 4)))
    as_torch = batch.to_torch(dtype=torch.float32, device="cpu")
    assert type(batch.a) is np.ndarray
    assert type(as_torch.a) is torch.Tensor
    assert as_torch.a.dtype == torch.float32
    assert type(as_torch.to_numpy().a) is np.ndarray
    assert type(as_torch.a) is torch.Tensor


def test_conversion_without_a_dtype_keeps_each_dtype():
    batch = Batch(a=np.zeros(2), b=[1, 2], c=[True, False], d=np.zeros(2, np.float32)).to_torch()
    assert [batch[name].dtype for name in "abcd"] == [torch.float64, torch.int64, torch.bool, torch.float32]


def test_a_joined_batch_converts_both_ways():
    batch = Batch(a=np.arange(2), b=torch.zeros((2, 2)))
    batch.to_numpy_()
    assert_array(batch.b, np.zeros((2, 2)), "float32")
    batch.to_torch_()
    assert batch.a.tolist() == [0, 1]
    assert batch.b.dtype == torch.float32


# ---- protocols -------------------------------------------------------------------------------------------------------


def test_the_pages_batches_pass_their_protocols():
    act = validate(Batch(act=np.array([1, 2, 3])), ActBatchProtocol)
    assert_array(act.act, [1, 2, 3])
    fields = transition()
    obs = validate(Batch(obs=fields["obs"], info=fields["info"]), ObsBatchProtocol)
    assert_array(obs.obs, [[1.0, 2.0], [3.0, 4.0]])
    rollout = validate(Batch(transition()), RolloutBatchProtocol)
    assert_array(rollout.rew, [1.0, 2.0])


def test_a_function_reads_what_its_protocol_declares():
    def loss(batch: RolloutBatchProtocol) -> float:
        return float(((batch.rew - 0.5) ** 2).mean())

    assert loss(validate(Batch(transition()), RolloutBatchProtocol)) == 1.25


def test_info_as_one_empty_dict_is_accepted_beside_more_observations():
    batch = Batch(obs=np.array([1, 2, 3]), info=np.array([{}], dtype=object))
    assert_array(validate(batch, ObsBatchProtocol).obs, [1, 2, 3])


# ---- distributions ---------------------------------------------------------------------------------------------------


def test_a_slice_takes_the_rows_of_a_categorical():
    probs = torch.tensor([[0.3, 0.7], [0.4, 0.6], [0.5, 0.5]])
    batch = Batch(dist=Categorical(probs=probs), values=np.array([1, 2, 3]))
    assert len(batch) == 3
    part = batch[0:2]
    assert len(part) == 2
    assert type(part.dist) is Categorical
    torch.testing.assert_close(part.dist.probs, probs[:2])
    assert_array(part["values"], [1, 2])


def test_an_int_takes_one_row_of_a_normal():
    batch = Batch(dist=Normal(torch.tensor([0.0, 1.0, 2.0]), torch.ones(3)), actions=np.array([0.5, 1.5, 2.5]))
    row = batch[1]
    assert row.dist.mean == 1.0
    assert row.dist.batch_shape == ()
    assert row.actions == 1.5


@pytest.mark.parametrize(
    "dist",
    [
        Independent(Normal(torch.arange(6.0).reshape(3, 2), torch.ones(3, 2)), 1),
        Bernoulli(torch.tensor([0.1, 0.2, 0.3])),
    ],
    ids=["independent", "bernoulli"],
)
def test_other_distributions_are_sliced_joined_and_stacked_too(dist):
    batch = Batch(dist=dist)
    torch.testing.assert_close(batch[[2, 0]].dist.mean, dist.mean[[2, 0]])
    torch.testing.assert_close(Batch.cat([batch[:1], batch[1:]]).dist.mean, dist.mean)
    assert Batch.stack([batch, batch]).dist.batch_shape == (2, 3)


def test_a_scalar_distribution_gets_a_batch_dimension():
    scalar = Categorical(probs=torch.tensor([0.3, 0.7]))
    assert scalar.batch_shape == ()
    assert dist_to_atleast_2d(scalar).batch_shape == (1,)
    batch = Batch(a=1, b=2, dist=Categorical(probs=torch.ones(3))).to_at_least_2d()
    assert batch.dist.batch_shape == (1,)
    assert_array(batch.a, [[1]])


# ---- key reservation -------------------------------------------------------------------------------------------------


def test_a_reserved_field_prints_empty_and_is_filled_later():
    batch = Batch(known_field=np.array([1, 2]), future_field=Batch())
    assert_shows(
        batch,
        """
        Batch(
            known_field: array([1, 2]),
            future_field: Batch(),
        )
        """,
    )
    batch.future_field = np.array([3, 4])
    assert_shows(
        batch,
        """
        Batch(
            known_field: array([1, 2]),
            future_field: array([3, 4]),
        )
        """,
    )


def test_fields_are_reserved_inside_fields():
    batch = Batch(obs=Batch(camera=Batch(), lidar=np.zeros(10)))
    assert_shows(
        batch,
        """
        Batch(
            obs: Batch(
                     camera: Batch(),
                     lidar: array([0., 0., 0., 0., 0., 0., 0., 0., 0., 0.]),
                 ),
        )
        """,
    )
    deep = Batch(b=Batch(c=Batch()), d=Batch())
    assert list(deep.keys()) == ["b", "d"]
    assert deep.b.c == Batch()


def test_a_reserved_field_reads_while_an_unknown_one_does_not():
    assert Batch(b=Batch()).b == Batch()
    with pytest.raises(AttributeError):
        _ = Batch().b


# ---- length and shape ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "length", "shape"),
    [
        ({"a": [1, 2, 3], "b": np.array([4, 5, 6])}, 3, [3]),
        ({"a": [1, 2], "b": [3, 4, 5]}, 2, [2]),
        ({"a": [1, 2], "b": [1, 2, 3, 4]}, 2, [2]),
        ({"a": [5.0, 4.0], "b": np.zeros((2, 3, 4))}, 2, [2]),
        ({"a": np.zeros((4, 2, 7)), "n": {"x": np.zeros((3, 5))}}, 3, [3, 2]),
        ({"a": [1, 2, 3], "reserved": Batch()}, 3, []),
        ({"a": [1, 2, 3], "b": Batch(c=Batch())}, 3, []),
        ({}, 0, []),
    ],
    ids=str,
)
def test_length_and_shape_are_the_smallest(fields, length, shape):
    batch = Batch(fields)
    assert len(batch) == length
    assert batch.shape == shape
    assert type(batch.shape) is list


def test_none_does_not_count_for_the_length():
    assert len(Batch(a=[1, 2, 3], b=None)) == 3


@pytest.mark.parametrize("batch", [Batch(a=5, b=10), Batch(a=[1, 2], b=[3, 4])[0], Batch(a=[1, 2], n={"b": 10})])
def test_a_scalar_has_no_length(batch):
    with pytest.raises(TypeError, match=r"\b(a|n\.b)\b"):
        len(batch)


def test_a_scalar_makes_the_shape_empty():
    assert Batch(a=5, b=10).shape == []
    assert Batch(a=5, b=np.zeros((2, 2))).shape == []


def test_a_row_of_one_dimensional_fields_has_neither_length_nor_shape():
    row = Batch(a=[5.0, 4.0], b=np.zeros((2, 3, 4)))[0]
    assert row.shape == []
    with pytest.raises(TypeError):
        len(row)


# ---- empty -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "keys"),
    [(Batch(), 0), (Batch(a=Batch(), b=Batch()), 2), (Batch(a=np.array([]), b=np.array([])), 2)],
    ids=["no fields", "reserved fields", "no rows"],
)
def test_three_ways_to_be_empty_have_length_zero(batch, keys):
    assert len(batch.get_keys()) == keys
    assert len(batch) == 0
    assert list(batch) == []


@pytest.mark.parametrize(
    ("batch", "empty", "empty_throughout"),
    [
        (Batch(), True, True),
        (Batch(a=Batch(), b=Batch(c=Batch())), False, True),
        (Batch(d=1), False, False),
        (Batch(a=np.float64(1.0)), False, False),
        (Batch(a=Batch(b=[1])), False, False),
        (Batch(a=None), False, False),
    ],
    ids=str,
)
def test_is_empty_looks_at_fields_or_at_leaves(batch, empty, empty_throughout):
    assert batch.is_empty() is empty
    assert batch.is_empty(recurse=True) is empty_throughout


def test_an_emptied_row_goes_back_into_its_batch_without_a_warning():
    batch = Batch(a=[1, 2, 3], b=["x", "y", "z"])
    batch[0] = Batch.empty(batch[0])
    assert_shows(
        batch,
        """
        Batch(
            a: array([0, 2, 3]),
            b: array([None, 'y', 'z'], dtype=object),
        )
        """,
    )


def test_an_emptied_row_of_a_nested_batch():
    batch = Batch(a=[False, True], b={"c": [2.0, "st"], "d": [1.0, 0.0]})
    batch[0] = Batch.empty(batch[1])
    assert_shows(
        batch,
        """
        Batch(
            a: array([False,  True]),
            b: Batch(
                   c: array([None, 'st'], dtype=object),
                   d: array([0., 0.]),
               ),
        )
        """,
    )


def test_empty_in_place_zeroes_numbers_and_clears_objects():
    data = Batch.stack((Batch(a=np.array([0.0, 2.0])), Batch(a=np.array([1.0, 3.0]), b="done")))
    array = data.a
    data.empty_()
    assert_shows(
        data,
        """
        Batch(
            a: array([[0., 0.],
                      [0., 0.]]),
            b: array([None, None], dtype=object),
        )
        """,
    )
    assert data.a is array


# ---- heterogeneous aggregation ---------------------------------------------------------------------------------------


def test_stack_fills_what_some_lack_with_zeros():
    first = Batch(a=np.ones((2, 3)), shared=np.array([1, 2]))
    second = Batch(b=np.zeros((2, 4)), shared=np.array([3, 4]))
    stacked = Batch.stack([first, second])
    assert_shows(
        stacked,
        """
        Batch(
            a: array([[[1., 1., 1.],
                       [1., 1., 1.]],

                      [[0., 0., 0.],
                       [0., 0., 0.]]]),
            shared: array([[1, 2],
                           [3, 4]]),
            b: array([[[0., 0., 0., 0.],
                       [0., 0., 0., 0.]],

                      [[0., 0., 0., 0.],
                       [0., 0., 0., 0.]]]),
        )
        """,
    )


def test_stack_fills_at_every_depth():
    first = Batch(a=np.zeros([4, 4]), common=Batch(c=np.zeros([4, 5])))
    second = Batch(b=np.zeros([4, 6]), common=Batch(c=np.zeros([4, 5])))
    stacked = Batch.stack([first, second])
    assert stacked.a.shape == (2, 4, 4)
    assert stacked.b.shape == (2, 4, 6)
    assert stacked.common.c.shape == (2, 4, 5)


def test_stack_fills_integers_with_integer_zeros():
    stacked = Batch.stack([Batch(a=[1, 2]), Batch(b=[3, 4])])
    assert_array(stacked.a, [[1, 2], [0, 0]], "int64")
    assert_array(stacked.b, [[0, 0], [3, 4]], "int64")


def test_stack_fills_objects_with_none():
    stacked = Batch.stack((Batch(a=np.array([0.0, 2.0])), Batch(a=np.array([1.0, 3.0]), b="done")))
    assert_shows(
        stacked,
        """
        Batch(
            a: array([[0., 2.],
                      [1., 3.]]),
            b: array([None, 'done'], dtype=object),
        )
        """,
    )


def test_cat_refuses_different_fields_and_names_them():
    with pytest.raises(ValueError, match=r"(?s)'a'.*'b'"):
        Batch.cat([Batch(a=[1, 2]), Batch(b=[3, 4])])


def test_cat_fills_when_asked_to():
    first = Batch(a=np.ones([3, 4]), common=Batch(c=np.ones([3, 5])))
    second = Batch(b=np.ones([4, 3]), common=Batch(c=np.ones([4, 5])))
    joined = Batch.cat([first, second], missing="pad")
    assert list(joined.keys()) == ["a", "common", "b"]
    assert_array(joined.a, np.concatenate([np.ones((3, 4)), np.zeros((4, 4))]))
    assert_array(joined.b, np.concatenate([np.zeros((3, 3)), np.ones((4, 3))]))
    assert_array(joined.common.c, np.ones((7, 5)))


def test_stack_refuses_different_fields_when_asked_to():
    with pytest.raises(ValueError, match=r"(?s)'a'.*'b'"):
        Batch.stack([Batch(a=[1, 2]), Batch(b=[3, 4])], missing="error")


def test_an_array_and_a_batch_under_one_name_cannot_be_stacked():
    with pytest.raises(ValueError, match="'a'"):
        Batch.stack([Batch(a=np.zeros([4, 4])), Batch(a=Batch(b=Batch()))])


def test_an_array_and_a_tensor_under_one_name_cannot_be_joined():
    with pytest.raises(ValueError, match="'a'"):
        Batch.stack([Batch(a=np.zeros(2)), Batch(a=torch.zeros(2))])
    with pytest.raises(ValueError, match="'a'"):
        Batch.cat([Batch(a=np.zeros(2)), Batch(a=torch.zeros(2))])


def test_arrays_of_different_shapes_cannot_be_stacked():
    with pytest.raises(ValueError, match="'a'"):
        Batch.stack([Batch(a=np.zeros((2, 3))), Batch(a=np.zeros((3, 3)))])


def test_fields_reserved_by_all_stay_reserved():
    batches = [Batch(a=Batch(), b=[1]), Batch(a=Batch(), b=[2])]
    assert Batch.stack(batches).a == Batch()
    assert Batch.cat(batches).a == Batch()


def test_a_field_reserved_by_some_is_filled():
    batches = [Batch(a=Batch(), b=[1, 2]), Batch(a=[5], b=[3])]
    assert_array(Batch.cat(batches).a, [0, 0, 5])
    assert_array(Batch.stack([Batch(a=Batch(), b=1), Batch(a=5, b=3)]).a, [0, 5])


def test_stack_along_another_axis_cannot_fill():
    with pytest.raises(ValueError, match="axis"):
        Batch.stack([Batch(a=np.zeros((2, 2))), Batch(b=np.zeros((2, 2)))], axis=1)


def test_fields_keep_the_order_in_which_they_are_first_seen():
    batches = [Batch(z=[1], b=[1]), Batch(y=[1], b=[2]), Batch(a=[1], z=[3])]
    assert list(Batch.stack(batches).keys()) == ["z", "b", "y", "a"]
    assert list(Batch.cat(batches, missing="pad").keys()) == ["z", "b", "y", "a"]
    assert list(Batch([{"z": 1}, {"a": 1, "z": 2}]).keys()) == ["z", "a"]


# ---- missing values --------------------------------------------------------------------------------------------------


def holes() -> Batch:
    return Batch(a=[1, 2, None, 4], b=[5.0, np.nan, 7.0, 8.0], c=[[1, 2], [3, 4], [5, 6], [7, 8]])


def test_null_masks_find_none_and_nan():
    assert holes().hasnull() is True
    mask = holes().isnull()
    assert_array(mask.a, [False, False, True, False], bool)
    assert_array(mask.b, [False, True, False, False], bool)
    assert_array(mask.c, np.zeros((4, 2), bool), bool)


def test_dropnull_keeps_complete_rows_with_their_shape():
    clean = holes().dropnull()
    assert len(clean) == 2
    assert_array(clean.a, [1, 4])
    assert_array(clean.b, [5.0, 8.0])
    assert_array(clean.c, [[1, 2], [7, 8]])
    assert not clean.hasnull()


def test_null_masks_see_nan_in_tensors():
    batch = Batch(n={"t": torch.tensor([[1.0, float("nan")], [1.0, 2.0]])})
    assert batch.hasnull()
    assert batch.isnull().n.t.tolist() == [[False, True], [False, False]]
    assert batch.dropnull().n.t.tolist() == [[1.0, 2.0]]


# ---- transformation --------------------------------------------------------------------------------------------------


def test_a_function_is_applied_to_every_leaf():
    batch = Batch(a=np.array([1, 2, 3]), nested=Batch(b=np.array([4.0, 5.0]), c=np.array([6, 7, 8])))
    doubled = batch.apply_values_transform(lambda x: x * 2)
    assert_array(batch.a, [1, 2, 3])
    assert_array(doubled.a, [2, 4, 6])
    assert_array(doubled.nested.b, [8.0, 10.0])
    nested = batch.nested
    batch.apply_values_transform(lambda x: x + 10, inplace=True)
    assert_array(batch.a, [11, 12, 13])
    assert_array(batch.nested.b, [14.0, 15.0])
    assert batch.nested is nested


# ---- gotchas ---------------------------------------------------------------------------------------------------------


def test_nested_and_flat_structure_hold_the_same_arrays():
    camera = np.zeros((32, 4, 4, 3))
    nested = Batch(obs=Batch(camera=camera, position=np.zeros((32, 3))), act=np.zeros(32))
    flat = Batch(camera=camera, position=np.zeros((32, 3)), act=np.zeros(32))
    assert nested.obs.camera is flat.camera
    assert len(nested) == len(flat) == 32


def test_a_field_named_like_a_method_is_reached_by_item():
    batch = Batch({"items": [1, 2], "keys": [3, 4], "get": [5, 6]})
    assert_array(batch["items"], [1, 2])
    assert_array(batch[1:]["keys"], [4])
    assert Batch.cat([batch, batch])["get"].tolist() == [5, 6, 5, 6]


def test_conversion_in_place_shares_memory_with_the_arrays_it_came_from():
    array = np.zeros((4, 2))
    batch = Batch(a=array)
    batch.to_torch_()
    batch.a[0] = 7.0
    assert_array(array[0], [7.0, 7.0])


# ---- serialisation ---------------------------------------------------------------------------------------------------


def test_a_pickle_restores_an_equal_batch():
    original = Batch(obs=Batch(a=0.0, c=torch.Tensor([1.0, 2.0])), np=np.zeros([3, 4]))
    restored = pickle.loads(pickle.dumps(original))
    assert restored == original
    assert restored.obs.a == 0.0
    assert type(restored.obs.c) is torch.Tensor
    assert restored.obs.c.tolist() == [1.0, 2.0]
    assert_array(restored["np"], np.zeros((3, 4)))
    assert list(restored.keys()) == ["obs", "np"]


# ---- arithmetic and numpy functions ----------------------------------------------------------------------------------


def test_numbers_are_added_to_every_leaf():
    batch = Batch(a=[1, 2], n={"b": [1.0, 2.0], "t": torch.tensor([1, 2])})
    more = batch + 1
    assert_array(more.a, [2, 3])
    assert_array(more.n.b, [2.0, 3.0])
    assert more.n.t.tolist() == [2, 3]
    assert_array(batch.a, [1, 2])
    array = batch.a
    batch += 1
    assert batch.a is array
    assert_array(array, [2, 3])


def test_np_mean_reduces_over_the_dimensions_that_the_fields_share():
    square_batch = Batch(a=np.array([[0.0, 2.0], [1.0, 3.0]]), b=[[5, -5], [1, -2]])
    assert_shows(
        np.mean(square_batch),
        """
        Batch(
            a: 1.5,
            b: -0.25,
        )
        """,
    )
    uneven = Batch.stack((Batch(a=np.array([0.0, 2.0]), b=5), Batch(a=np.array([1.0, 3.0]), b=-5)))
    assert_shows(
        np.mean(uneven),
        """
        Batch(
            a: array([0.5, 2.5]),
            b: 0.0,
        )
        """,
    )


@pytest.mark.parametrize("name", ["mean", "sum", "min", "max", "std", "var", "prod", "any", "all", "median"])
@pytest.mark.parametrize(
    "column", [[1, 2, 4], [1.0, 2.0, 4.0], [True, False, True], np.array([1, 2, 4], np.uint8)], ids=str
)
def test_reductions_work_on_every_numeric_kind(name, column):
    function = getattr(np, name)
    batch = Batch(a=column, n={"b": column})
    assert function(batch).a == function(np.asarray(column))
    assert function(batch).n.b == function(np.asarray(column))


@pytest.mark.parametrize("name", ["mean", "sum", "min", "max", "std", "var"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64], ids=str)
def test_reductions_work_on_tensors(name, dtype):
    tensor = torch.tensor([1, 2, 4], dtype=dtype)
    reduced = getattr(np, name)(Batch(a=tensor)).a
    assert type(reduced) is torch.Tensor
    np.testing.assert_allclose(reduced.item(), getattr(np, name)(np.array([1.0, 2.0, 4.0])), rtol=1e-6)


def test_numpy_functions_go_to_every_leaf():
    batch = Batch(a=[0.0, 1.0], n={"t": torch.tensor([0.0, 1.0])})
    result = np.exp(batch)
    assert_array(result.a, np.exp([0.0, 1.0]))
    torch.testing.assert_close(result.n.t, torch.tensor([0.0, 1.0]).exp())
