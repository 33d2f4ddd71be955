"""Every member of Tianshou's Batch, under its name, with its parameters, doing what it does there.

The differential tests at the end run where Tianshou is installed, and are skipped elsewhere.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Independent, Normal

from typedbatch import Batch
from typedbatch.distributions import dist_to_atleast_2d, get_len_of_dist, get_sliced_dist


def assert_array(value: object, expected: object, dtype: object = None) -> None:
    assert type(value) is np.ndarray
    np.testing.assert_array_equal(value, expected)
    if dtype is not None:
        assert value.dtype == np.dtype(dtype)


def rollout() -> Batch:
    return Batch(
        obs={"cam": np.arange(6.0).reshape(3, 2), "pos": [1, 2, 3]}, act=torch.tensor([0, 1, 2]), rew=[1.0, 2.0, 4.0]
    )


# ---- names and parameters --------------------------------------------------------------------------------------------

PARAMETERS = {
    "get": ["key", "default"],
    "pop": ["key", "default"],
    "get_keys": [],
    "keys": [],
    "values": [],
    "items": [],
    "update": [],
    "to_dict": ["recursive"],
    "to_list_of_dicts": [],
    "to_numpy": [],
    "to_numpy_": [],
    "to_torch": ["dtype", "device"],
    "to_torch_": ["dtype", "device"],
    "apply_values_transform": ["values_transform", "inplace"],
    "cat": ["batches"],
    "cat_": ["batches"],
    "stack": ["batches", "axis"],
    "stack_": ["batches", "axis"],
    "empty": ["batch", "index"],
    "empty_": ["index"],
    "split": ["size", "shuffle", "merge_last"],
    "set_array_at_key": ["arr", "key", "index", "default_value"],
    "isnull": [],
    "hasnull": [],
    "dropnull": [],
    "replace_empty_batches_by_none": [],
    "to_at_least_2d": [],
}


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_method_takes_tianshous_parameters_by_name(name):
    parameters = inspect.signature(getattr(Batch, name)).parameters
    usable = [p for p in parameters if parameters[p].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and p != "self"]
    assert usable[: len(PARAMETERS[name])] == PARAMETERS[name]


@pytest.mark.parametrize(
    ("name", "parameter", "default"),
    [
        ("split", "shuffle", True),
        ("split", "merge_last", False),
        ("to_torch", "dtype", None),
        ("to_torch", "device", "cpu"),
        ("to_dict", "recursive", True),
        ("apply_values_transform", "inplace", False),
        ("stack", "axis", 0),
        ("empty", "index", None),
        ("set_array_at_key", "index", None),
        ("set_array_at_key", "default_value", None),
    ],
)
def test_a_parameter_has_tianshous_default(name, parameter, default):
    assert inspect.signature(getattr(Batch, name)).parameters[parameter].default == default


@pytest.mark.parametrize("name", ["cat", "stack", "empty"])
def test_static_methods_are_static(name):
    assert isinstance(inspect.getattr_static(Batch, name), staticmethod)


def test_values_live_in_the_instance_dict():
    array = np.zeros(2)
    batch = Batch(a=array)
    assert batch.__dict__ == {"a": array}
    batch.__dict__["b"] = array
    assert batch.b is array
    assert list(batch.keys()) == ["a", "b"]


# ---- what values become ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [Batch(x=1), torch.zeros(2), np.zeros(2), np.array([True]), None, {1, 2}, "text", len, int, Normal(0.0, 1.0)],
)
@pytest.mark.parametrize("how", ["constructor", "attribute", "item", "update"])
def test_these_values_are_stored_as_the_same_object(value, how):
    batch = Batch()
    if how == "constructor":
        batch = Batch(a=value)
    elif how == "attribute":
        batch.a = value
    elif how == "item":
        batch["a"] = value
    else:
        batch.update(a=value)
    assert batch.a is value


@pytest.mark.parametrize("how", ["constructor", "attribute", "item", "update", "transform", "setdefault"])
def test_values_are_converted_wherever_they_are_set(how):
    batch = Batch(a=0)
    if how == "constructor":
        batch = Batch({"a": [{"x": 1}, {"x": 2}]})
    elif how == "attribute":
        batch.a = [{"x": 1}, {"x": 2}]
    elif how == "item":
        batch["a"] = [{"x": 1}, {"x": 2}]
    elif how == "update":
        batch.update({"a": [{"x": 1}, {"x": 2}]})
    elif how == "transform":
        batch = batch.apply_values_transform(lambda _: [{"x": 1}, {"x": 2}])
    else:
        batch = Batch()
        batch.setdefault("a", [{"x": 1}, {"x": 2}])
    assert type(batch.a) is Batch
    assert_array(batch.a.x, [1, 2])


def test_a_tuple_of_tensors_is_stacked():
    assert Batch(a=(torch.zeros(2), torch.ones(2))).a.tolist() == [[0.0, 0.0], [1.0, 1.0]]


def test_tensors_of_different_shapes_in_a_list_are_a_type_error():
    with pytest.raises(TypeError, match="'a'"):
        Batch(a=[torch.zeros(2), torch.zeros(3)])


def test_a_list_of_dicts_and_none_is_an_object_array():
    stored = Batch(a=[{"x": 1}, None]).a
    assert stored.dtype == object
    assert list(stored) == [{"x": 1}, None]


def test_text_arrays_become_object_arrays():
    assert_array(Batch(a=np.array(["x", "y"])).a, ["x", "y"], object)


# ---- constructor -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [None, {}, [], (), Batch(), np.array([], dtype=object)], ids=repr)
def test_nothing_makes_an_empty_batch(data):
    assert list(Batch(data).keys()) == []


def test_keywords_win_over_the_dict():
    assert Batch({"a": 1, "b": 2}, a=3).a == 3


def test_a_copy_shares_nothing_at_any_depth():
    array, tensor = np.zeros(2), torch.zeros(2)
    batch = Batch({"n": {"a": array}, "t": tensor}, copy=True)
    batch.n.a += 1
    batch.t += 1
    assert_array(array, [0.0, 0.0])
    assert tensor.tolist() == [0.0, 0.0]


# ---- reading and writing fields --------------------------------------------------------------------------------------


def test_get_and_pop_return_the_default_for_an_unknown_name():
    batch = Batch(a=[1, 2])
    assert batch.get("a") is batch.a
    assert batch.get("b") is None
    assert batch.get("b", 3) == 3
    assert batch.get("b", default=3) == 3
    assert batch.pop("b", 3) == 3
    assert batch.pop("b") is None
    assert_array(batch.pop("a"), [1, 2])
    assert "a" not in batch


def test_fields_are_deleted_by_attribute_and_by_item():
    batch = Batch(a=1, b=2, c=3)
    del batch.a
    del batch["b"]
    assert list(batch.keys()) == ["c"]


@pytest.mark.parametrize("read", [lambda b: b.adv, lambda b: b["adv"]], ids=["attribute", "item"])
@pytest.mark.parametrize("error", [AttributeError, KeyError])
def test_an_unknown_field_is_an_attribute_error_and_a_key_error(read, error):
    with pytest.raises(error):
        read(Batch(act=1))


def test_hasattr_and_contains_agree():
    batch = Batch(a=1)
    assert hasattr(batch, "a")
    assert not hasattr(batch, "b")
    assert "a" in batch
    assert "b" not in batch
    assert 0 not in batch


def test_update_takes_a_dict_a_batch_keywords_and_both():
    batch = Batch(a=1)
    batch.update({"b": [1]})
    batch.update(Batch(c=[2]))
    batch.update(d=[3])
    batch.update({"e": [4]}, f=[5])
    batch.update()
    assert list(batch.keys()) == ["a", "b", "c", "d", "e", "f"]
    assert_array(batch.e, [4])


@pytest.mark.parametrize("name", ["clear", "popitem", "setdefault", "copy"])
def test_the_dict_methods_that_tianshou_lets_through_exist(name):
    assert callable(getattr(Batch, name))


def test_the_dict_methods_that_tianshou_lets_through_work():
    batch = Batch(a=1, b=2)
    assert batch.popitem()[0] == "b"
    assert batch.setdefault("a", 5) == 1
    assert batch.setdefault("c", 5) == 5
    batch.clear()
    assert list(batch.keys()) == []


# ---- rows ------------------------------------------------------------------------------------------------------------


def test_none_and_reserved_fields_pass_through_an_index():
    row = Batch(a=[1, 2], n=None, r=Batch(), d={"r": Batch()})[0]
    assert row.n is None
    assert row.r == Batch()
    assert row.d.r == Batch()


@pytest.mark.parametrize(
    "batch", [Batch(a=1), Batch(a=[1, 2], n={"b": 1}), Batch(a=[1, 2])[0]], ids=["0-d", "nested", "row"]
)
def test_a_scalar_takes_no_index(batch):
    with pytest.raises(IndexError):
        batch[0]


@pytest.mark.parametrize("index", [9, [0, 9], -4], ids=repr)
def test_an_index_out_of_range_is_an_index_error(index):
    with pytest.raises(IndexError):
        rollout()[index]


def test_a_batch_without_fields_has_no_row_zero():
    with pytest.raises(IndexError):
        Batch()[0]


@pytest.mark.parametrize(
    "index",
    [
        1,
        -1,
        slice(1, None),
        slice(None, None, -1),
        [2, 0],
        range(2),
        [True, False, True],
        np.array([1, 1]),
        np.array([False, True, True]),
        torch.tensor([2, 1]),
        torch.tensor([True, False, True]),
        np.int64(2),
        torch.tensor(1),
        None,
        ...,
        [],
        (slice(0, 2),),
    ],
    ids=str,
)
def test_arrays_and_tensors_give_the_same_rows(index):
    part = Batch(a=np.arange(6).reshape(3, 2), t=torch.arange(6).reshape(3, 2))[index]
    np.testing.assert_array_equal(part.a, part.t.numpy())
    assert part.a.shape == tuple(part.t.shape)


def test_slices_are_views_and_index_arrays_are_copies():
    batch = rollout()
    assert np.shares_memory(batch[1:].obs.cam, batch.obs.cam)
    assert batch[1:].act.data_ptr() == batch.act[1:].data_ptr()
    assert not np.shares_memory(batch[[0, 1]].obs.cam, batch.obs.cam)


def test_a_column_index_reaches_nested_fields():
    batch = Batch(a=np.arange(6).reshape(3, 2), n={"t": torch.arange(6).reshape(3, 2)})
    assert_array(batch[:, 1].a, [1, 3, 5])
    assert batch[:, 1].n.t.tolist() == [1, 3, 5]


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (0, {"a": 9, "t": 9.0, "n": {"b": 9}}),
        ([0, 1], {"a": [9, 8], "t": [9.0, 8.0], "n": {"b": [9, 8]}}),
        (slice(0, 2), Batch(a=[9, 8], t=torch.tensor([9.0, 8.0]), n=Batch(b=[9, 8]))),
        ([0, 1], [{"a": 9, "t": 9.0, "n": {"b": 9}}, {"a": 8, "t": 8.0, "n": {"b": 8}}]),
        (np.array([True, True, False]), {"a": 9, "t": 9.0, "n": {"b": 9}}),
        (torch.tensor([0, 1]), {"a": 9, "t": 9.0, "n": {"b": 9}}),
    ],
    ids=["dict", "lists", "batch", "list of dicts", "mask", "tensor"],
)
def test_rows_are_assigned_into_the_existing_arrays(index, rows):
    batch = Batch(a=[1, 2, 3], t=torch.tensor([1.0, 2.0, 3.0]), n={"b": [1, 2, 3]})
    array = batch.n.b
    batch[index] = rows
    assert batch.n.b is array
    assert array[0] == batch.a[0] == 9
    assert batch.t[0] == 9.0
    assert array[2] == 3
    assert batch.t.dtype == torch.float32


def test_absent_fields_of_a_row_are_zeroed_in_every_kind_of_leaf():
    batch = Batch(a=[1, 2], t=torch.tensor([1.0, 2.0]), o=["x", "y"], n={"b": [True, True]}, r=Batch())
    batch[1] = {"a": 9}
    assert_array(batch.a, [1, 9])
    assert batch.t.tolist() == [1.0, 0.0]
    assert_array(batch.o, ["x", None])
    assert_array(batch.n.b, [True, False])
    assert batch.r == Batch()


@pytest.mark.parametrize("value", [5, "text", [1, 2], np.zeros(2)], ids=repr)
def test_rows_without_names_are_a_value_error(value):
    with pytest.raises(ValueError):
        rollout()[0] = value


def test_a_row_with_a_new_name_is_a_value_error():
    with pytest.raises(ValueError, match="new"):
        Batch(a=[1])[0] = {"a": 1, "new": 2}


# ---- size ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "length"),
    [
        (rollout(), 3),
        (Batch(a=[1, 2], b=[1]), 1),
        (Batch(a=[1, 2], n=None, r=Batch(), d=Batch(r=Batch())), 2),
        (Batch(d=Categorical(torch.ones(4, 2))), 4),
        (Batch(n=None), 0),
        (Batch(r=Batch()), 0),
    ],
    ids=range(6),
)
def test_length(batch, length):
    assert len(batch) == length
    assert bool(batch) is (length > 0)
    assert len(list(batch)) == length


@pytest.mark.parametrize("leaf", [1, "text", {1, 2}, len, Normal(0.0, 1.0)], ids=str)
@pytest.mark.parametrize("ask", [len, bool, lambda b: list(b), lambda b: b.to_list_of_dicts()])
def test_no_length_with_a_scalar_leaf(leaf, ask):
    with pytest.raises(TypeError):
        ask(Batch(a=[1, 2], n={"b": leaf}))


def test_shape_is_empty_with_text_or_a_number():
    assert Batch(a=np.zeros((2, 2)), b="x").shape == []
    assert Batch(a=np.zeros((2, 2)), b=1).shape == []
    assert Batch().shape == []


# ---- equality, hash, copies ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "two", "expected"),
    [
        (rollout(), rollout(), True),
        (Batch(a=1, b=2), Batch(b=2, a=1), True),
        (Batch(a=[1, 2]), Batch(a=torch.tensor([1, 2])), True),
        (Batch(a=[1, 2]), Batch(a=[1.0, 2.0]), False),
        (Batch(a=[1, 2]), Batch(a=[1, 3]), False),
        (Batch(a=[1, 2]), Batch(a=[1, 2], b=1), False),
        (Batch(a=[1, 2]), Batch(b=[1, 2]), False),
        (Batch(a=[1, 2]), Batch(a=[[1, 2]]), False),
        (Batch(a=1), Batch(a=[1]), False),
        (Batch(a={"x": 1}), Batch(a={"x": 1}), True),
        (Batch(a={"x": 1}), Batch(a={"x": 2}), False),
        (Batch(a=None), Batch(a=None), True),
        (Batch(a=None), Batch(a=Batch()), False),
        (Batch(a="x"), Batch(a="x"), True),
        (Batch(a=[None, "x"]), Batch(a=[None, "x"]), True),
        (Batch(a=[np.nan]), Batch(a=[np.nan]), False),
        (Batch(a=1), {"a": 1}, False),
        (Batch(), None, False),
    ],
)
def test_equality(one, two, expected):
    assert (one == two) is expected
    assert (one != two) is not expected


def test_batches_are_unhashable():
    with pytest.raises(TypeError):
        hash(Batch())


def test_a_shallow_copy_has_its_own_nested_batches_and_shares_the_arrays():
    batch = rollout()
    for other in (copy.copy(batch), batch.copy()):
        assert type(other) is Batch
        assert other.obs is not batch.obs
        assert other.obs.cam is batch.obs.cam


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_every_protocol(protocol):
    batch = rollout()
    batch.info, batch.note, batch.none = Batch(), "text", None
    restored = pickle.loads(pickle.dumps(batch, protocol))
    assert restored == batch
    assert list(restored.keys()) == list(batch.keys())


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def test_a_batch_is_added_to_a_batch():
    total = rollout() + rollout()
    assert_array(total.obs.pos, [2, 4, 6])
    assert total.act.tolist() == [0, 2, 4]
    assert_array(total.rew, [2.0, 4.0, 8.0])


def test_multiplication_and_division_by_a_number():
    batch = Batch(a=[1, 2], t=torch.tensor([1.0, 2.0]))
    assert_array((batch * 3).a, [3, 6])
    assert_array((batch / 2).a, [0.5, 1.0])
    assert (batch / 2).t.tolist() == [0.5, 1.0]
    assert_array(batch.a, [1, 2])


def test_in_place_operators_write_into_the_arrays():
    array = np.array([1.0, 2.0])
    batch = same = Batch(a=array, n={"t": torch.tensor([1.0, 2.0])})
    batch += 1
    batch *= 3
    batch /= 2
    assert batch is same
    assert batch.a is array
    assert_array(array, [3.0, 4.5])
    assert batch.n.t.tolist() == [3.0, 4.5]


def test_reserved_fields_take_no_part_in_arithmetic():
    batch = Batch(a=[1], r=Batch(), n={"r": Batch()})
    for result in (batch + 1, batch * 2, batch / 2, batch + batch):
        assert result.r == Batch()
        assert result.n.r == Batch()
    batch += 1
    assert batch.r == Batch()


@pytest.mark.parametrize("other", ["text", None, [1, 2], {"a": 1}], ids=repr)
def test_other_operands_are_type_errors(other):
    with pytest.raises(TypeError):
        Batch(a=[1, 2]) + other
    with pytest.raises(TypeError):
        Batch(a=[1, 2]) * other


# ---- together --------------------------------------------------------------------------------------------------------


def test_cat_skips_batches_without_fields():
    assert Batch.cat([Batch(), Batch(a=[1]), {}, Batch(a=[2])]) == Batch(a=[1, 2])


@pytest.mark.parametrize("join", [Batch.cat, Batch.stack])
def test_joining_nothing_gives_an_empty_batch(join):
    assert join([]) == Batch()
    assert join([Batch(), Batch()]) == Batch()


@pytest.mark.parametrize("join", [Batch.cat, Batch.stack])
def test_dicts_and_batches_are_joined(join):
    assert join([{"a": [1], "n": {"b": [2]}}, Batch(a=[3], n=Batch(b=[4]))]) == join(
        [Batch(a=[1], n={"b": [2]}), Batch(a=[3], n={"b": [4]})]
    )


def test_cat_in_place_takes_one_batch_or_one_dict_or_several():
    for more in (Batch(a=[2]), {"a": [2]}, [Batch(a=[2])], ({"a": [2]},)):
        batch = Batch(a=[1])
        batch.cat_(more)
        assert_array(batch.a, [1, 2])


def test_cat_in_place_into_an_empty_batch():
    batch = Batch()
    batch.cat_([Batch(a=[1]), Batch(a=[2])])
    assert_array(batch.a, [1, 2])


def test_stack_in_place_into_an_empty_batch():
    batch = Batch()
    batch.stack_([{"a": 1}, {"a": 2}])
    assert_array(batch.a, [1, 2])


def test_stack_in_place_along_another_axis():
    batch = Batch(a=np.zeros((2, 3)))
    batch.stack_([Batch(a=np.ones((2, 3)))], axis=1)
    assert batch.a.shape == (2, 2, 3)


@pytest.mark.parametrize("leaf", [1, "text"], ids=repr)
def test_scalars_cannot_be_concatenated(leaf):
    with pytest.raises(ValueError, match="'a'"):
        Batch.cat([Batch(a=leaf), Batch(a=leaf)])


def test_a_joined_batch_shares_nothing_with_its_parts():
    part = Batch(a=np.zeros(2), t=torch.zeros(2))
    for joined in (Batch.cat([part]), Batch.stack([part])):
        joined += 1
    assert_array(part.a, [0.0, 0.0])
    assert part.t.tolist() == [0.0, 0.0]


# ---- split -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "merge_last", "lengths"),
    [
        (1, False, [1] * 7),
        (3, False, [3, 3, 1]),
        (3, True, [3, 4]),
        (5, True, [7]),
        (7, False, [7]),
        (7, True, [7]),
        (9, False, [7]),
        (9, True, [7]),
        (-1, False, [7]),
        (-1, True, [7]),
    ],
)
@pytest.mark.parametrize("shuffle", [True, False])
def test_split_sizes(size, merge_last, lengths, shuffle):
    pieces = list(Batch(a=np.arange(7)).split(size, shuffle=shuffle, merge_last=merge_last))
    assert [len(piece) for piece in pieces] == lengths
    assert sorted(x for piece in pieces for x in piece.a) == list(range(7))


def test_split_is_lazy_and_follows_numpys_global_seed():
    batch = Batch(a=np.arange(20))
    pieces = batch.split(6)
    assert isinstance(pieces, Iterator)
    np.random.seed(5)
    first = [piece.a.tolist() for piece in batch.split(6)]
    np.random.seed(5)
    assert [piece.a.tolist() for piece in batch.split(6)] == first


@pytest.mark.parametrize("size", [0, -2])
def test_split_refuses_a_size_that_makes_no_rows(size):
    with pytest.raises(AssertionError, match=str(size)):
        list(Batch(a=[1, 2]).split(size))


def test_split_of_nothing_gives_nothing():
    assert list(Batch().split(3)) == []
    assert list(Batch(a=np.zeros((0, 2))).split(3)) == []


# ---- conversion ------------------------------------------------------------------------------------------------------


def test_to_dict_goes_all_the_way_down_unless_told_not_to():
    batch = rollout()
    assert type(batch.to_dict()["obs"]) is dict
    assert batch.to_dict(recursive=False)["obs"] is batch.obs
    assert batch.to_dict()["rew"] is batch.rew


def test_to_list_of_dicts_gives_a_dict_per_row():
    rows = Batch(a=[1, 2], n={"b": ["x", "y"]}).to_list_of_dicts()
    assert rows == [{"a": 1, "n": {"b": "x"}}, {"a": 2, "n": {"b": "y"}}]
    assert type(rows[0]["n"]) is dict


def test_to_torch_leaves_what_is_no_number():
    dist = Normal(torch.zeros(2), torch.ones(2))
    batch = Batch(s="text", n=None, o=["x", None], d=dist, r=Batch(), a=[1.0, 2.0])
    converted = batch.to_torch()
    assert (converted.s, converted.n) == ("text", None)
    assert type(converted.o) is np.ndarray
    assert type(converted.d) is Normal
    assert converted.r == Batch()
    assert converted.a.dtype == torch.float64


def test_rows_convert_too():
    row = Batch(a=[1.5, 2.5], b=[1, 2])[0].to_torch()
    assert row.a.shape == ()
    assert (row.a.item(), row.b.item()) == (1.5, 1)


def test_to_numpy_leaves_what_is_no_tensor():
    batch = Batch(s="text", n=None, o=["x", None], t=torch.tensor([1.0]), r=Batch())
    converted = batch.to_numpy()
    assert (converted.s, converted.n) == ("text", None)
    assert converted.o is batch.o
    assert_array(converted.t, [1.0], "float32")
    assert type(batch.t) is torch.Tensor


def test_tensors_inside_a_graph_convert():
    tensor = torch.ones(2, requires_grad=True) * 3
    batch = Batch(t=tensor)
    assert_array(batch.to_numpy().t, [3.0, 3.0])
    assert batch.to_torch().t.requires_grad


def test_to_at_least_2d_goes_all_the_way_down():
    batch = Batch(a=1, b=[1, 2], t=torch.zeros(3), n={"m": np.zeros((2, 3, 4)), "d": Categorical(torch.ones(3))})
    result = batch.to_at_least_2d()
    assert_array(result.a, [[1]])
    assert_array(result.b, [[1, 2]])
    assert type(result.t) is torch.Tensor
    assert result.t.shape == (1, 3)
    assert result.n.m.shape == (2, 3, 4)
    assert result.n.d.batch_shape == (1,)
    assert batch.b.shape == (2,)


# ---- transformation --------------------------------------------------------------------------------------------------


def test_a_transformation_sees_every_leaf_that_is_no_batch():
    seen = []
    dist = Normal(0.0, 1.0)
    batch = Batch(a=[1], n={"b": "text", "c": None, "r": Batch()}, d=dist)
    batch.apply_values_transform(seen.append)
    assert [type(leaf) for leaf in seen] == [np.ndarray, str, type(None), Normal]


def test_a_transformation_in_place_keeps_the_nested_batches():
    batch = rollout()
    nested = batch.obs
    batch.apply_values_transform(lambda leaf: leaf[:1], inplace=True)
    assert batch.obs is nested
    assert len(batch) == 1


def test_keys_only_structure_as_tianshou_builds_it():
    structure = rollout().apply_values_transform(lambda leaf: None)
    assert structure.to_dict() == {"obs": {"cam": None, "pos": None}, "act": None, "rew": None}


# ---- emptying --------------------------------------------------------------------------------------------------------


def test_empty_gives_zeros_and_leaves_the_source():
    batch = rollout()
    batch.note = ["x", "y", "z"]
    cleared = Batch.empty(batch)
    assert_array(cleared.obs.cam, np.zeros((3, 2)), "float64")
    assert cleared.act.tolist() == [0, 0, 0]
    assert_array(cleared.note, [None] * 3)
    assert batch.rew[0] == 1.0


def test_empty_only_at_an_index():
    batch = Batch(a=[1, 2, 3], o=["x", "y", "z"], n={"t": torch.tensor([1, 2, 3])})
    cleared = Batch.empty(batch, index=[0, 2])
    assert_array(cleared.a, [0, 2, 0])
    assert_array(cleared.o, [None, "y", None])
    assert cleared.n.t.tolist() == [0, 2, 0]
    assert_array(batch.a, [1, 2, 3])


def test_empty_in_place_writes_into_the_arrays_and_returns_the_batch():
    array, tensor = np.array([1, 2]), torch.tensor([1, 2])
    batch = Batch(a=array, n={"t": tensor})
    assert batch.empty_(0) is batch
    assert_array(array, [0, 2])
    assert tensor.tolist() == [0, 2]
    batch.empty_()
    assert_array(array, [0, 0])
    assert tensor.tolist() == [0, 0]


def test_empty_of_a_row_gives_zeros_of_the_same_kind():
    row = Batch.empty(Batch(a=[1, 2], b=[1.5, 2.5], c=[True, False], o=["x", "y"])[0])
    assert (row.a, row.b, row.c, row.o) == (0, 0.0, False, None)
    assert (type(row.a), type(row.b), type(row.c)) == (np.int64, np.float64, np.bool_)


# ---- a field from an array -------------------------------------------------------------------------------------------


def test_set_array_at_key_sets_a_whole_field():
    batch = Batch(a=[1, 2, 3])
    batch.set_array_at_key(np.array([1.0, 2.0, 3.0]), "b")
    batch.set_array_at_key(arr=np.array([4.0, 5.0, 6.0]), key="a")
    assert_array(batch.b, [1.0, 2.0, 3.0])
    assert_array(batch.a, [4.0, 5.0, 6.0])


def test_set_array_at_key_sets_rows_of_a_field():
    batch = Batch(a=np.array([1, 2, 3]))
    array = batch.a
    batch.set_array_at_key(np.array([9, 8]), "a", index=[0, 2])
    assert batch.a is array
    assert_array(array, [9, 2, 8])


def test_set_array_at_key_creates_a_field_with_a_default():
    batch = Batch(a=[1, 2, 3])
    batch.set_array_at_key(np.array([9.0, 8.0]), "b", index=[0, 2], default_value=-1)
    assert_array(batch.b, [9.0, -1.0, 8.0])


def test_set_array_at_key_creates_a_tensor_field():
    batch = Batch(a=[1, 2, 3])
    batch.set_array_at_key(torch.tensor([9.0, 8.0]), "b", index=[0, 2], default_value=-1)
    assert type(batch.b) is torch.Tensor
    assert batch.b.tolist() == [9.0, -1.0, 8.0]


@pytest.mark.parametrize("index", [None, [0, 2]], ids=["all", "some"])
@pytest.mark.parametrize("key", ["a", "new"])
def test_set_array_at_key_refuses_a_wrong_length(index, key):
    with pytest.raises(ValueError, match=key):
        Batch(a=[1, 2, 3]).set_array_at_key(np.zeros(4), key, index)


def test_set_array_at_key_refuses_rows_of_a_nested_batch():
    with pytest.raises(ValueError, match="'n'"):
        Batch(n={"x": [1, 2, 3]}).set_array_at_key(np.zeros(2), "n", [0, 2])


def test_set_array_at_key_refuses_a_default_of_another_kind():
    with pytest.raises(TypeError, match="'b'"):
        Batch(a=[1, 2, 3]).set_array_at_key(np.zeros(2), "b", [0, 2], default_value="text")


# ---- missing values --------------------------------------------------------------------------------------------------


def test_isnull_has_a_mask_for_every_leaf():
    batch = Batch(a=[1, 2], o=["x", None], n={"f": [np.nan, 1.0]}, none=None, s="text")
    mask = batch.isnull()
    assert_array(mask.a, [False, False], bool)
    assert_array(mask.o, [False, True], bool)
    assert_array(mask.n.f, [True, False], bool)
    assert bool(mask.none) is True
    assert bool(mask.s) is False


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (rollout(), False),
        (Batch(a=[1.0, np.nan]), True),
        (Batch(n={"o": [None, 1]}), True),
        (Batch(a=None), True),
        (Batch(), False),
        (Batch(r=Batch()), False),
        (Batch(a=["x", "y"]), False),
        (Batch(a=[1.0, 2.0])[0], False),
        (Batch(a=[np.nan, 2.0])[0], True),
    ],
    ids=range(9),
)
def test_hasnull(batch, expected):
    assert batch.hasnull() is expected


def test_reserved_fields_become_none_at_every_depth():
    batch = Batch(r=Batch(), n={"r": Batch(), "a": [1]}, a=[2])
    nested = batch.n
    batch.replace_empty_batches_by_none()
    assert batch.r is None
    assert batch.n is nested
    assert nested.r is None
    assert_array(nested.a, [1])


# ---- module functions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dist",
    [
        Categorical(logits=torch.arange(6.0).reshape(3, 2)),
        Normal(torch.arange(3.0), torch.ones(3)),
        Independent(Normal(torch.arange(6.0).reshape(3, 2), torch.ones(3, 2)), 1),
    ],
    ids=["categorical", "normal", "independent"],
)
def test_functions_for_distributions(dist):
    assert get_len_of_dist(dist) == 3
    part = get_sliced_dist(dist, [2, 0])
    assert type(part) is type(dist)
    torch.testing.assert_close(part.entropy(), dist.entropy()[[2, 0]])
    assert dist_to_atleast_2d(dist) is dist
    assert dist_to_atleast_2d(get_sliced_dist(dist, 1)).batch_shape == (1,)


def test_a_scalar_distribution_has_no_length():
    with pytest.raises(TypeError):
        get_len_of_dist(Normal(0.0, 1.0))


# ---- side by side with Tianshou --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def peer() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = pytest.importorskip("tianshou.data", exc_type=ImportError)
    return data.Batch


def plain(value: Any) -> Any:
    """Batches of either library as dicts in the order of names, so that contents alone are compared."""
    if hasattr(type(value), "to_dict"):
        return {name: plain(value.__dict__[name]) for name in sorted(value.__dict__)}
    if isinstance(value, dict):
        return {name: plain(value[name]) for name in sorted(value)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def assert_same(ours: Any, theirs: Any, path: str = "result") -> None:
    assert type(ours) is type(theirs), path
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys(), path
        for name in ours:
            assert_same(ours[name], theirs[name], f"{path}.{name}")
    elif isinstance(ours, list):
        assert len(ours) == len(theirs), path
        for i, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_same(one, other, f"{path}[{i}]")
    elif isinstance(ours, np.ndarray | np.generic | torch.Tensor):
        assert ours.dtype == theirs.dtype, path
        assert tuple(ours.shape) == tuple(theirs.shape), path
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs), err_msg=path)
    else:
        assert ours == theirs, path


CONTENTS: dict[str, Any] = {
    "flat": lambda: {"a": np.arange(4), "b": np.linspace(0.0, 1.0, 4)},
    "lists": lambda: {"a": [1, 2, 3, 4], "b": [True, False, True, False], "c": (1.5, 2.5, 3.5, 4.5)},
    "matrices": lambda: {"a": np.arange(12.0).reshape(4, 3), "b": np.arange(8).reshape(4, 2)},
    "nested": lambda: {"obs": {"cam": np.zeros((4, 2, 2)), "deep": {"x": [1, 2, 3, 4]}}, "act": [0, 1, 0, 1]},
    "tensors": lambda: {"a": torch.arange(4), "n": {"t": torch.arange(8.0).reshape(4, 2)}},
    "tensor list": lambda: {"a": [torch.zeros(2), torch.ones(2), torch.zeros(2), torch.ones(2)]},
    "objects": lambda: {"a": [1, 2, 3, 4], "o": np.array(["x", None, "y", "z"], dtype=object)},
    "dict rows": lambda: {"info": [{"t": i, "done": False} for i in range(4)], "a": np.ones(4)},
    "object array of dicts": lambda: {"info": np.array([{"t": i} for i in range(4)], dtype=object)},
    "small dtypes": lambda: {"a": np.arange(4, dtype=np.uint8), "b": np.arange(4, dtype=np.float32)},
}

OPERATIONS: dict[str, Any] = {
    "to_dict": lambda b, cls: b.to_dict(),
    "row": lambda b, cls: b[1],
    "negative row": lambda b, cls: b[-1],
    "slice": lambda b, cls: b[1:3],
    "list index": lambda b, cls: b[[2, 0, 2]],
    "mask": lambda b, cls: b[np.array([True, False, True, False])],
    "rows": lambda b, cls: list(b),
    "length": lambda b, cls: len(b),
    "shape": lambda b, cls: b.shape,
    "names": lambda b, cls: sorted(b.keys()),
    "rows as dicts": lambda b, cls: b.to_list_of_dicts(),
    "cat": lambda b, cls: cls.cat([b, b[:1], b]),
    "stack": lambda b, cls: cls.stack([b, b]),
    "stack rows": lambda b, cls: cls.stack([b[0], b[1]]),
    "batch of rows": lambda b, cls: cls([b[0], b[1]]),
    "split": lambda b, cls: list(b.split(3, shuffle=False)),
    "split merged": lambda b, cls: list(b.split(3, shuffle=False, merge_last=True)),
    "to_numpy": lambda b, cls: b.to_numpy(),
    "empty": lambda b, cls: cls.empty(b),
    "empty at": lambda b, cls: cls.empty(b, 1),
    "isnull": lambda b, cls: b.to_numpy().isnull(),
    "hasnull": lambda b, cls: b.hasnull(),
    "row assignment": lambda b, cls: assigned(b, 0, b[1]),
    "rows assignment": lambda b, cls: assigned(b, [0, 3], b[[1, 2]]),
    "partial row": lambda b, cls: assigned(b, 0, {}),
    "new field": lambda b, cls: changed(b, "new", [1, None]),
    "transform": lambda b, cls: b.apply_values_transform(lambda leaf: leaf[:2]),
    "copy": lambda b, cls: cls(b, copy=True),
    "deepcopy": lambda b, cls: copy.deepcopy(b),
    "pickle": lambda b, cls: pickle.loads(pickle.dumps(b)),
}


def assigned(batch: Any, index: Any, rows: Any) -> Any:
    batch = copy.deepcopy(batch)
    batch[index] = rows
    return batch


def changed(batch: Any, name: str, value: Any) -> Any:
    batch[name] = value
    return batch


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("content", CONTENTS)
def test_the_same_contents_give_the_same_result(peer, content, operation):
    ours = OPERATIONS[operation](Batch(CONTENTS[content]()), Batch)
    theirs = OPERATIONS[operation](peer(CONTENTS[content]()), peer)
    assert_same(plain(ours), plain(theirs))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operation", [lambda b: b + 1, lambda b: b * 2, lambda b: b + b, lambda b: b / 2.0])
@pytest.mark.parametrize("content", ["float", "tensors"])
def test_the_same_arithmetic_on_floats(peer, content, operation):
    fields = {
        "float": {"a": np.arange(4.0), "n": {"b": np.ones((4, 2))}},
        "tensors": {"a": torch.arange(4.0), "n": {"b": torch.ones(4, 2)}},
    }[content]
    assert_same(plain(operation(Batch(fields, copy=True))), plain(operation(peer(fields, copy=True))))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "batches",
    [
        [{"a": [1, 2]}, {"b": [3, 4]}],
        [{"a": np.ones((2, 3)), "s": [1, 2]}, {"b": np.zeros((2, 4)), "s": [3, 4]}],
        [{"a": 1, "o": "x"}, {"a": 2}],
        [{"a": {"b": 1}}, {"a": {"b": 2}, "c": 3.0}],
        [{"a": torch.ones(2)}, {"b": torch.zeros(3), "a": torch.zeros(2)}],
    ],
    ids=range(5),
)
def test_stack_fills_alike(peer, batches):
    assert_same(plain(Batch.stack(batches)), plain(peer.stack(batches)))
    assert_same(plain(Batch(batches)), plain(peer(batches)))


@pytest.mark.filterwarnings("ignore")
def test_reserved_fields_join_alike(peer):
    def joined(cls: Any) -> list[Any]:
        parts = [cls(a=cls(), b=[1, 2]), cls(a=[5], b=[3])]
        return [cls.cat(parts), cls.cat([cls(a=cls()), cls(a=[1])]), cls.stack([cls(a=cls(), b=1), cls(a=5, b=3)])]

    assert_same(plain(joined(Batch)), plain(joined(peer)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("size", "merge_last"), [(1, False), (4, False), (4, True), (-1, False), (100, True)])
def test_the_same_seed_splits_alike(peer, size, merge_last):
    def pieces(cls: Any) -> list[Any]:
        np.random.seed(11)
        return list(cls(a=np.arange(10), n={"b": np.arange(20).reshape(10, 2)}).split(size, merge_last=merge_last))

    assert_same(plain(pieces(Batch)), plain(pieces(peer)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "misuse",
    [
        lambda cls: cls()[0],
        lambda cls: cls(a=1)[0],
        lambda cls: cls(a=[1])[5],
        lambda cls: len(cls(a=1)),
        lambda cls: cls({1: 2}),
        lambda cls: cls(a=[torch.zeros(2), torch.zeros(3)]),
        lambda cls: cls(a=[np.zeros((3, 2)), np.zeros((3, 3))]),
        lambda cls: cls(a=[1])["b"],
        lambda cls: cls(a=[1]).b,
        lambda cls: cls.cat([cls(a=[1]), cls(b=[1])]),
        lambda cls: cls.stack([cls(a=[1]), cls(b=[1])], axis=1),
        lambda cls: list(cls(a=[1]).split(0)),
        lambda cls: cls(a=[1]).__setitem__(0, 5),
        lambda cls: cls(a=[1]).__setitem__(0, {"b": 5}),
        lambda cls: cls(a=[1, 2]).set_array_at_key(np.zeros(3), "b"),
        lambda cls: cls(a=[1, 2]) + "text",
        lambda cls: hash(cls()),
    ],
    ids=range(17),
)
def test_the_same_misuse_can_be_caught_alike(peer, misuse):
    with pytest.raises(Exception) as theirs:
        misuse(peer)
    with pytest.raises(theirs.type):
        misuse(Batch)
