"""Defects of Tianshou, RLlib, verl, TRL and TensorDict that DESIGN 10 refuses, one test each, and bad input everywhere.

Each test does what goes wrong there and asks for the right outcome. The last part feeds every public method something
it cannot take: the error must be typedbatch's own, name the field, and leave the batch as it was.
"""

from __future__ import annotations

import copy
import inspect
import operator
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from itertools import islice
from typing import Any

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal

from typedbatch import Batch, RolloutBatch, errors
from typedbatch.errors import TypedBatchError


def assert_array(value: object, expected: object, dtype: object = None) -> None:
    assert type(value) is np.ndarray
    np.testing.assert_array_equal(value, expected)
    if dtype is not None:
        assert value.dtype == np.dtype(dtype)


def assert_identical(one: Any, two: Any, path: str = "batch") -> None:
    """Names in the same order, kinds, dtypes, shapes and values; NaN equals NaN. Asks nothing of Batch's own ``==``."""
    assert type(one) is type(two), path
    if isinstance(one, Batch):
        assert list(one.__dict__) == list(two.__dict__), path
        for name in one.__dict__:
            assert_identical(one.__dict__[name], two.__dict__[name], f"{path}.{name}")
    elif isinstance(one, np.ndarray | torch.Tensor):
        assert one.dtype == two.dtype, path
        assert tuple(one.shape) == tuple(two.shape), path
        left, right = (x if isinstance(x, np.ndarray) else x.detach().numpy() for x in (one, two))
        np.testing.assert_array_equal(left, right, err_msg=path)
    elif isinstance(one, Normal):
        assert torch.equal(one.loc, two.loc), path
        assert torch.equal(one.scale, two.scale), path
    else:
        assert one == two or one is two, path


# ---- Tianshou: fields are paired by position, order hangs on the hash seed -------------------------------------------


@pytest.mark.parametrize("operation", [operator.add, operator.sub, operator.mul, operator.iadd, np.add])
def test_batches_are_paired_by_name_and_not_by_position(operation):
    one, two = Batch(a=[1], n={"x": [3], "y": [30]}, b=[10]), Batch(b=[20], n={"y": [40], "x": [4]}, a=[2])
    work = {operator.iadd: operator.add, np.add: operator.add}.get(operation, operation)
    result = operation(one, two)
    assert list(result.keys()) == ["a", "n", "b"]
    assert_array(result.a, [work(1, 2)])
    assert_array(result.b, [work(10, 20)])
    assert_array(result.n.x, [work(3, 4)])
    assert_array(result.n.y, [work(30, 40)])


def test_batches_with_other_fields_are_not_added_at_all():
    one = Batch(a=[1], b=[2])
    with pytest.raises(ValueError, match=r"(?s)'b'.*'c'"):
        one + Batch(a=[1], c=[2])


ORDER = """
from typedbatch import Batch
names = ["obs", "act", "rew", "done", "info", "policy", "weight", "adv"]
parts = [Batch({name: [i] for name in names[i:i + 5]}) for i in range(4)]
rows = Batch([part.to_dict() for part in parts])
for joined in (Batch.stack(parts), Batch.cat(parts, missing="pad"), rows, parts[0] + parts[0]):
    print(list(joined.keys()))
print(Batch(s={"c", "a", "b"}))
try:
    Batch.cat(parts)
except ValueError as error:
    print(error)
try:
    Batch(a=1)[0] = Batch.stack(parts)
except ValueError as error:
    print(error)
"""


def test_order_and_texts_do_not_depend_on_the_hash_seed():
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ORDER], env={**os.environ, "PYTHONHASHSEED": seed}, stdout=subprocess.PIPE, text=True
        )
        for seed in ("1", "2", "77")
    ]
    printed = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert "['obs', 'act', 'rew', 'done', 'info', 'policy', 'weight', 'adv']" in printed[0]
    assert len(set(printed)) == 1


# ---- Tianshou: arithmetic --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", [[1, 2], [True, False], torch.tensor([1, 2]), np.array([1, 2], np.uint8)], ids=str)
def test_division_works_on_integers(column):
    halves = (Batch(a=column, n={"b": column}) / 2).n.b
    assert [float(x) for x in halves] == [float(x) / 2 for x in column]


def test_operators_work_from_the_left_and_with_arrays():
    batch = Batch(a=[1.0, 2.0])
    assert_array((1 + batch).a, [2.0, 3.0])
    assert_array((2 * batch).a, [2.0, 4.0])
    assert_array((1 - batch).a, [0.0, -1.0])
    assert_array((-batch).a, [-1.0, -2.0])
    assert_array((batch - 1).a, [0.0, 1.0])
    assert_array((np.array([3.0, 4.0]) * batch).a, [3.0, 8.0])


def test_arithmetic_works_on_tensors_inside_a_graph():
    tensor = torch.ones(2, requires_grad=True) * 2
    for result in (Batch(a=tensor) * 3, Batch(a=tensor) / 0.5, Batch(a=tensor) + 1):
        assert result.a.requires_grad


@pytest.mark.parametrize("work", [operator.add, operator.sub, operator.mul, operator.truediv], ids=lambda f: f.__name__)
def test_tensor_fields_and_arrays_compute_in_either_order(work):
    # Torch answers ``tensor + array`` with numpy's deprecation warning, which is an error here.
    batch, array = Batch(t=torch.tensor([1.0, 2.0], dtype=torch.float64)), np.array([3.0, 4.0])
    assert work(array, batch).t.tolist() == work(array, np.array([1.0, 2.0])).tolist()
    assert work(batch, array).t.tolist() == work(np.array([1.0, 2.0]), array).tolist()


@pytest.mark.parametrize("make", [np.array, torch.tensor], ids=["numpy", "torch"])
def test_in_place_arithmetic_equals_the_other_when_the_operand_is_part_of_the_batch(make):
    def fresh() -> Batch:
        return Batch(a=make([1.0, 2.0]), b=make([10.0, 20.0]), c=make([1.0, 1.0]))

    for operand in (lambda b: b.a, lambda b: b, lambda b: Batch(a=b.b, b=b.a, c=b.c), lambda b: b["b"][::1]):
        expected, batch = fresh() + operand(fresh()), fresh()
        batch += operand(batch)
        assert_identical(batch, expected)


@pytest.mark.parametrize("ufunc", [np.divmod, np.modf, np.frexp])
def test_a_ufunc_with_two_results_leaves_no_tuple_in_a_batch(ufunc):
    batch = Batch(a=[1.5, 2.5])
    try:
        results = ufunc(batch, 2) if ufunc is np.divmod else ufunc(batch)
    except TypedBatchError:
        return
    expected = ufunc(batch.a, 2) if ufunc is np.divmod else ufunc(batch.a)
    assert type(results) is tuple
    for result, array in zip(results, expected, strict=True):
        assert_array(result.a, array)


@pytest.mark.parametrize("name", ["std", "var", "any", "all"])
@pytest.mark.parametrize("value", [3.0, 0.0], ids=str)
def test_reductions_of_a_scalar_field_are_numpys(name, value):
    function = getattr(np, name)
    result = function(Batch(a=value)).a
    assert result == function(np.asarray(value))
    assert result.dtype == function(np.asarray(value)).dtype


@pytest.mark.parametrize("theirs", [None, [2.0], Batch()], ids=["none", "values", "reserved"])
@pytest.mark.parametrize("ours", [None, [1.0], Batch()], ids=["none", "values", "reserved"])
def test_plus_and_plus_equals_agree_about_fields_without_numbers(ours, theirs):
    def outcome(operation: Callable[[Any, Any], Any]) -> str:
        try:
            return repr(operation(Batch(a=[1.0], b=ours), Batch(a=[1.0], b=theirs)))
        except TypedBatchError:
            return "refused"

    assert outcome(operator.add) == outcome(operator.iadd)


# ---- Tianshou: conversion --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("in_place", [False, True], ids=["new", "in place"])
def test_to_torch_honours_the_dtype_for_every_numeric_leaf(dtype, in_place):
    batch = Batch(a=np.zeros(2), n={"f": np.zeros(2, np.float32), "i": [1, 2]}, t=torch.zeros(2), s=1.5)
    batch = (batch.to_torch_(dtype=dtype), batch)[1] if in_place else batch.to_torch(dtype=dtype)
    assert {batch.a.dtype, batch.n.f.dtype, batch.n.i.dtype, batch.t.dtype, batch.s.dtype} == {dtype}


def test_to_torch_leaves_bool_bool():
    batch = Batch(a=[True, False], t=torch.tensor([True])).to_torch(dtype=torch.float32)
    assert batch.a.dtype == batch.t.dtype == torch.bool


@pytest.mark.parametrize(
    "convert",
    [
        lambda b: b.to_torch_(),
        lambda b: b.to_numpy_(),
        lambda b: b.apply_values_transform(lambda leaf: leaf, inplace=True),
        lambda b: b.empty_(),
    ],
    ids=["to_torch_", "to_numpy_", "apply_values_transform", "empty_"],
)
def test_work_in_place_keeps_the_nested_batches(convert):
    batch = Batch(obs={"deep": {"x": [1.0, 2.0], "t": torch.zeros(2)}})
    obs, deep = batch.obs, batch.obs.deep
    convert(batch)
    assert batch.obs is obs
    assert batch.obs.deep is deep


def test_an_alias_of_a_nested_part_sees_the_conversion():
    batch = Batch(obs={"x": [1.0, 2.0]})
    alias = batch.obs
    batch.to_torch_()
    assert type(alias.x) is torch.Tensor


@pytest.mark.parametrize("leaf", ["text", None, np.array(["x", None], dtype=object), {1, 2}], ids=str)
def test_to_torch_takes_leaves_that_are_no_numbers(leaf):
    assert Batch(n={"o": leaf}).to_torch().n.o is leaf


def test_to_torch_takes_arrays_that_torch_cannot_share():
    flipped, frozen, foreign = np.arange(3.0)[::-1], np.arange(3.0), np.arange(3.0).astype(">f8")
    frozen.setflags(write=False)
    batch = Batch(a=flipped, b=frozen, c=foreign).to_torch()
    assert batch.a.tolist() == [2.0, 1.0, 0.0]
    assert batch.b.tolist() == batch.c.tolist() == [0.0, 1.0, 2.0]
    batch.b += 1
    assert_array(frozen, [0.0, 1.0, 2.0])


# ---- Tianshou: missing values ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64], ids=str)
def test_nan_in_a_tensor_is_found(dtype):
    batch = Batch(n={"t": torch.tensor([1.0, float("nan"), 2.0], dtype=dtype)})
    assert batch.isnull().n.t.tolist() == [False, True, False]
    assert batch.hasnull()
    assert len(batch.dropnull()) == 2


def test_dropnull_keeps_shapes_kinds_and_dtypes():
    batch = Batch(
        obs=np.arange(12.0, dtype=np.float32).reshape(2, 3, 2),
        t=torch.ones(2, 4),
        n={"deep": np.ones((2, 1), np.int8)},
        o=["x", "y"],
        rew=[1.0, np.nan],
        dist=Normal(torch.zeros(2), torch.ones(2)),
    )
    clean = batch.dropnull()
    assert_array(clean.obs, batch.obs[:1], "float32")
    assert type(clean.t) is torch.Tensor
    assert clean.t.shape == (1, 4)
    assert_array(clean.n.deep, [[1]], "int8")
    assert_array(clean.o, ["x"], object)
    assert clean.dist.batch_shape == (1,)


def test_dropnull_of_a_wide_field_drops_the_whole_row():
    clean = Batch(a=[[1.0, np.nan], [1.0, 2.0]], b=[1, 2]).dropnull()
    assert_array(clean.a, [[1.0, 2.0]])
    assert_array(clean.b, [2])


def test_dropnull_may_keep_nothing():
    clean = Batch(a=np.full((2, 3), np.nan), b=[1, 2]).dropnull()
    assert clean.a.shape == (0, 3)
    assert clean.b.shape == (0,)


# ---- Tianshou: equality ----------------------------------------------------------------------------------------------


class Unruly:
    """Cannot be compared, as some array-likes."""

    __hash__ = None

    def __eq__(self, other: object) -> bool:
        raise ValueError("ambiguous")


def holding_itself() -> Batch:
    batch = Batch(a=[1])
    batch.me = batch
    return batch


LEAVES: dict[str, Callable[[], Any]] = {
    "distribution": lambda: Normal(torch.zeros(2), torch.ones(2)),
    "array": lambda: np.zeros((2, 3)),
    "other array": lambda: np.zeros((3, 2)),
    "tensor": lambda: torch.zeros(2, 3),
    "bfloat16": lambda: torch.zeros(2, dtype=torch.bfloat16),
    "grad": lambda: torch.ones(2, requires_grad=True) * 2,
    "text": lambda: "text",
    "none": lambda: None,
    "number": lambda: 1,
    "reserved": Batch,
    "nested": lambda: Batch(x=[1, 2]),
    "objects": lambda: np.array([np.zeros(2), None, "x"], dtype=object),
    "unruly": Unruly,
    "array of unruly": lambda: np.array([Unruly(), Unruly()], dtype=object),
    "structured": lambda: np.zeros(2, dtype=[("x", int), ("y", float)]),
    "dates": lambda: np.array(["2020-01-01", "NaT"], dtype="M8[D]"),
    "set": lambda: {1, 2},
}


@pytest.mark.parametrize("one", LEAVES)
def test_equality_and_closeness_never_raise(one):
    for two in LEAVES:
        left, right = Batch(n={"a": LEAVES[one]()}), Batch(n={"a": LEAVES[two]()})
        assert (left == right) is (one == two and one not in ("unruly", "array of unruly", "dates")), two
        assert left.allclose(right) in (True, False), two


@pytest.mark.parametrize("make", [lambda: torch.eye(2).to_sparse(), lambda: torch.zeros(2, device="meta")])
@pytest.mark.parametrize("compare", [operator.eq, Batch.allclose])
def test_tensors_without_plain_memory_compare_without_an_error(make, compare):
    assert compare(Batch(a=make()), Batch(a=make())) in (True, False)
    for other in LEAVES:
        assert compare(Batch(a=make()), Batch(a=LEAVES[other]())) is False, other
        assert compare(Batch(a=LEAVES[other]()), Batch(a=make())) is False, other


@pytest.mark.parametrize("compare", [operator.eq, Batch.allclose])
def test_a_batch_that_holds_itself_compares_without_an_error(compare):
    assert compare(holding_itself(), holding_itself()) in (True, False)
    assert compare(holding_itself(), Batch(a=[1])) is False


def test_a_number_is_not_equal_to_a_list_of_it():
    assert Batch(a=1) != Batch(a=[1])


def test_equality_of_batches_with_distributions():
    def make(mean: float) -> Batch:
        return Batch(dist=Normal(torch.full((2,), mean), torch.ones(2)))

    assert make(0.0) == make(0.0)
    assert make(0.0) != make(1.0)


# ---- Tianshou: construction and names --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [5, 0, False, "abc", [1, 2], [None], [{"a": 1}, 5], np.zeros(3), {1, 2}, iter([]), object()],
    ids=lambda data: type(data).__name__,
)
def test_what_has_no_names_is_not_silently_an_empty_batch(data):
    with pytest.raises(errors.LeafError):
        Batch(data)


SHADOWING = {name: [1, 2, 3] for name in dir(Batch) if not name.startswith("__")} | {
    "self": [1, 2, 3],
    "data": [1, 2, 3],
}


@pytest.mark.parametrize(
    "operation",
    [
        lambda b: pickle.loads(pickle.dumps(b)),
        copy.copy,
        copy.deepcopy,
        Batch,
        lambda b: Batch(b, copy=True),
        lambda b: b[:],
        lambda b: b[[0, 1, 2]],
        Batch.to_torch,
        Batch.to_numpy,
        Batch.dropnull,
        Batch.copy,
        lambda b: Batch.cat([b[:1], b[1:]]),
        lambda b: Batch.stack(list(b)),
        lambda b: Batch(Batch.to_list_of_dicts(b)),
        lambda b: Batch(Batch.to_dict(b)),
        lambda b: Batch.cat(list(Batch.split(b, 2, shuffle=False))),
        lambda b: Batch.apply_values_transform(b, lambda leaf: leaf),
        lambda b: b + 0,
        lambda b: Batch.isnull(b) + b,
        lambda b: np.sort(b),
        Batch.to_at_least_2d,
        Batch.empty,
    ],
)
def test_a_field_may_have_any_methods_name(operation):
    batch = Batch(SHADOWING)
    result = operation(batch)
    assert list(result.__dict__) == list(SHADOWING)
    assert all(value.shape[-1] == 3 for value in result.__dict__.values())
    assert batch["copy"].tolist() == [1, 2, 3]
    assert len(batch) == 3
    assert batch == Batch(SHADOWING)
    assert "copy" in batch
    assert "'copy'" in repr(batch) or "copy: array([1, 2, 3])" in repr(batch)


def test_rows_of_a_batch_with_methods_names_are_assigned():
    batch = Batch(SHADOWING)
    batch[0] = dict.fromkeys(SHADOWING, 9)
    assert {tuple(value) for value in batch.__dict__.values()} == {(9, 2, 3)}


def test_a_flag_called_copy_is_never_taken_for_a_field_or_the_other_way_round():
    with pytest.raises(errors.LeafError, match="copy"):
        Batch(copy=np.arange(3))
    assert_array(Batch({"copy": np.arange(3)})["copy"], [0, 1, 2])


@pytest.mark.parametrize("name", ["items", "a.b", "shape", "x y", "", "1", "__class__", "batch_dict", "batch", "größe"])
def test_any_string_is_a_name_for_item_access(name):
    batch = Batch()
    batch[name] = [1, 2]
    assert_array(batch[name], [1, 2])
    assert name in batch
    assert batch[1:][name].tolist() == [2]
    batch.update({name: [3]})
    assert pickle.loads(pickle.dumps(batch))[name].tolist() == [3]
    del batch[name]
    assert len(batch.keys()) == 0


def test_a_field_named_batch_can_be_updated_by_keyword():
    batch = Batch()
    batch.update(batch=[1], self=[2])
    assert list(batch.keys()) == ["batch", "self"]


@pytest.mark.parametrize("read", [lambda b: b.reward, lambda b: b["reward"], lambda b: b.__delitem__("reward")])
def test_a_missing_field_names_the_batch_the_field_and_what_there_is(read):
    with pytest.raises(errors.MissingFieldError) as caught:
        read(Batch(obs=[1], act=[1], rewards=[1]))
    text = str(caught.value)
    assert text.startswith("Batch has no field 'reward'; it has obs, act, rewards")
    assert "did you mean 'rewards'" in text
    assert "dict" not in text


def test_a_missing_field_of_a_record_names_the_record():
    with pytest.raises(AttributeError, match="RolloutBatch has no field 'adv'"):
        _ = RolloutBatch(obs=1, info=1, obs_next=1, act=1, rew=1, terminated=1, truncated=1)["adv"]


@pytest.mark.parametrize("index", [0, None, slice(0, 1), 1.5], ids=repr)
def test_deleting_rows_is_refused_in_words(index):
    with pytest.raises(TypedBatchError) as caught:
        del Batch(a=[1, 2])[index]
    assert str(caught.value)


def test_copy_returns_a_batch_and_setdefault_converts():
    batch = Batch(a=[1])
    assert type(batch.copy()) is Batch
    assert_array(batch.setdefault("b", [1, 2]), [1, 2])


def test_mixed_tuples_keep_their_numbers():
    assert list(Batch(a=("a", -2, -3)).a) == ["a", -2, -3]


def test_numpy_numbers_in_mixed_lists_are_kept():
    stored = Batch(a=[np.float32(1.5), "x", None]).a
    assert stored[0] == 1.5
    assert stored[1:].tolist() == ["x", None]


# ---- Tianshou: rows --------------------------------------------------------------------------------------------------


def test_a_partial_row_can_be_refused():
    batch = Batch(a=[1, 2], f=[1.5, 2.5], n={"x": [1, 2], "y": [1, 2]})
    before = copy.deepcopy(batch)
    with pytest.raises(errors.RowAssignmentError, match="'f'"):
        batch.set_rows(0, {"a": 9, "n": {"x": 1, "y": 1}}, strict=True)
    with pytest.raises(errors.RowAssignmentError, match=r"(?s)'n'.*'y'"):
        batch.set_rows(0, {"a": 9, "f": 1.0, "n": {"x": 1}}, strict=True)
    assert_identical(batch, before)
    batch.set_rows(0, {"a": 9, "f": 9.0, "n": {"x": 9, "y": 9}}, strict=True)
    assert (batch.a[0], batch.f[0], batch.n.x[0], batch.n.y[0]) == (9, 9.0, 9, 9)


INTEGERS = {
    "int64": lambda: np.array([1, 2]),
    "int8": lambda: np.array([1, 2], np.int8),
    "uint8": lambda: np.array([1, 2], np.uint8),
    "torch int64": lambda: torch.tensor([1, 2]),
    "torch int8": lambda: torch.tensor([1, 2], dtype=torch.int8),
    "torch uint8": lambda: torch.tensor([1, 2], dtype=torch.uint8),
}


@pytest.mark.parametrize("value", [2.7, [2.7, 1.0], float("nan"), float("inf"), 2**63, 300, -200], ids=repr)
@pytest.mark.parametrize("field", INTEGERS)
def test_values_that_a_field_cannot_hold_are_not_truncated(field, value):
    if value in (300, -200) and field.endswith("int64"):
        value *= 2**60 * 1.0
    batch = Batch(f=[0.0, 0.0], n={"a": INTEGERS[field]()})
    before = copy.deepcopy(batch)
    with pytest.raises(errors.RowAssignmentError, match=r"n\.a"):
        batch[:] = {"f": 1.0, "n": {"a": value}}
    assert_identical(batch, before)


@pytest.mark.parametrize("make", [lambda: np.zeros(2, np.float16), lambda: torch.zeros(2, dtype=torch.float16)])
def test_a_float_is_rounded_but_does_not_become_infinite(make):
    batch = Batch(a=make())
    batch[0] = {"a": 0.1}
    assert abs(float(batch.a[0]) - 0.1) < 1e-4
    with pytest.raises(errors.RowAssignmentError, match="'a'"):
        batch[0] = {"a": 1e6}
    assert abs(float(batch.a[0]) - 0.1) < 1e-4


def test_a_whole_float_goes_into_an_integer_field():
    batch = Batch(a=[1, 2], t=torch.tensor([1, 2]))
    batch[0] = {"a": 3.0, "t": 3.0}
    assert_array(batch.a, [3, 2], "int64")
    assert batch.t.tolist() == [3, 2]


def test_a_number_is_assigned_into_a_tensor_field():
    batch = Batch(t=torch.zeros(2))
    batch[0] = {"t": 2.5}
    assert batch.t.tolist() == [2.5, 0.0]


@pytest.mark.parametrize(
    "index",
    [slice(None, None, -1), slice(2, None, -2), range(3), [True, True, True], np.array([2, 1, 0]), ..., (slice(3),)],
)
def test_rows_are_assigned_wherever_they_can_be_read(index):
    for leaf in (np.zeros(3), torch.zeros(3)):
        batch = Batch(a=leaf)
        rows = batch[index]
        batch[index] = {"a": np.arange(1.0, 1.0 + len(rows))}
        assert batch[index].a.tolist() == list(np.arange(1.0, 1.0 + len(rows)))


def test_rows_are_shifted_within_a_batch():
    # Torch refuses to copy between overlapping memory, and a numpy field before it must not be shifted alone.
    for target, source in (
        (slice(0, 3), slice(1, 4)),
        (slice(1, 4), slice(0, 3)),
        (slice(None, None, -1), slice(None)),
    ):
        expected = np.arange(4)
        expected[target] = np.arange(4)[source]
        batch = Batch(a=np.arange(4), t=torch.arange(4), n={"t": torch.arange(4)})
        batch[target] = batch[source]
        assert batch.a.tolist() == batch.t.tolist() == batch.n.t.tolist() == expected.tolist()


def test_a_row_taken_out_goes_back_in_unchanged():
    batch = Batch(a=[1, 2], n={"t": torch.tensor([1.0, 2.0]), "r": Batch()}, o=["x", "y"], none=None)
    before = copy.deepcopy(batch)
    for i in range(2):
        batch[i] = batch[i]
    batch[:] = batch[:]
    assert_identical(batch, before)


# ---- rows lost, repeated or paired wrongly ---------------------------------------------------------------------------


def everything(rows: int) -> Batch:
    """One field of every kind that has rows; field by field, row i is recognisable as i."""
    number = torch.arange(float(rows))
    return Batch(
        array=np.arange(rows),
        listed=list(range(rows)),
        tensor=torch.arange(rows),
        tensors=[torch.tensor(i) for i in range(rows)] or torch.zeros(0),
        objects=np.array([f"row {i}" for i in range(rows)], dtype=object),
        infos=[{"t": i, "deep": {"t": i}} for i in range(rows)] or Batch(t=[], deep=Batch(t=[])),
        blobs=np.array([[i] for i in range(rows)] + [None], dtype=object)[:rows],
        wide=np.repeat(np.arange(rows), 3).reshape(rows, 3),
        dist=Normal(number, torch.ones(rows)),
    )


def row_numbers(batch: Batch) -> list[list[int]]:
    return [
        batch.array.tolist(),
        batch.listed.tolist(),
        batch.tensor.tolist(),
        batch.tensors.tolist(),
        [int(text.split()[1]) for text in batch.objects],
        batch.infos.t.tolist(),
        batch.infos.deep.t.tolist(),
        [blob[0] for blob in batch.blobs],
        batch.wide[:, 2].tolist(),
        [int(x) for x in batch.dist.mean.tolist()],
    ]


def assert_rows(batch: Batch, expected: list[int]) -> None:
    assert row_numbers(batch) == [expected] * 10


@given(rows=st.integers(1, 17), size=st.integers(1, 20), merge_last=st.booleans(), shuffle=st.booleans())
def test_split_neither_loses_nor_repeats_nor_mixes_rows(rows, size, merge_last, shuffle):
    pieces = list(islice(everything(rows).split(size, shuffle, merge_last, rng=0), rows + 1))
    order = [row for piece in pieces for row in piece.array.tolist()]
    assert sorted(order) == list(range(rows))
    assert shuffle or order == list(range(rows))
    assert all(len(piece) > 0 for piece in pieces)
    assert_rows(Batch.cat(pieces), order)


@pytest.mark.parametrize("size", [2, 3, 4, 6, 100])
def test_split_ends_when_the_size_does_not_divide_the_rows(size):
    assert sum(len(piece) for piece in islice(everything(5).split(size), 6)) == 5


def test_infos_are_shuffled_with_the_rest():
    shuffled = next(everything(50).split(-1, shuffle=True, rng=3))
    order = shuffled.array.tolist()
    assert order != list(range(50))
    assert_rows(shuffled, order)


@given(rows=st.integers(1, 9), data=st.data())
def test_any_index_takes_the_same_rows_of_every_field(rows, data):
    size = st.integers(0, rows)
    index: Any = data.draw(
        st.one_of(
            st.slices(rows),
            st.lists(st.integers(-rows, rows - 1), max_size=12),
            hnp.arrays(bool, rows),
            st.builds(slice, size, size),
            st.lists(st.integers(0, rows - 1), min_size=1, max_size=5).map(torch.tensor),
        )
    )
    assert_rows(
        everything(rows)[index], np.arange(rows)[index if not torch.is_tensor(index) else index.numpy()].tolist()
    )


@pytest.mark.parametrize("rows", [[1, 0, 3, 1], [1, 0], [[1, 0], [3, 1]]], ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64"])
def test_row_numbers_of_any_integer_dtype_mean_the_same_to_every_field(dtype, rows):
    # To torch alone, uint8 is a mask: tensors would get other rows than the arrays beside them.
    batch = Batch(a=np.arange(4), t=torch.arange(4), n={"t": torch.arange(4)}, d=Normal(torch.arange(4.0), 1.0))
    index = np.array(rows, dtype)
    part = batch[index]
    assert part.a.tolist() == part.t.tolist() == part.n.t.tolist() == part.d.mean.tolist() == rows
    del batch.d
    batch[index] = {"a": index * 10, "t": index * 10, "n": {"t": index * 10}}
    expected = np.arange(4)
    expected[index] = index * 10
    assert batch.a.tolist() == batch.t.tolist() == batch.n.t.tolist() == expected.tolist()


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8], ids=str)
def test_tensors_of_row_numbers_mean_the_same_to_every_field(dtype):
    part = Batch(a=np.arange(4), t=torch.arange(4))[torch.tensor([1, 0, 3, 1], dtype=dtype)]
    assert part.a.tolist() == part.t.tolist() == [1, 0, 3, 1]


def test_an_empty_slice_takes_no_rows_and_steps_are_kept():
    assert_rows(everything(5)[0:0], [])
    assert_rows(everything(5)[::2], [0, 2, 4])
    assert_rows(everything(5)[7:], [])


def test_a_slice_leaves_its_source_as_it_was():
    batch = everything(4)
    batch.info_dict, batch.info_tensor, batch.none = {"t": [1, 2, 3, 4]}, torch.arange(4), None
    names, before = list(batch.keys()), copy.deepcopy(batch)
    for index in (0, slice(0, 1), [1], np.array([True, False, False, True])):
        part = batch[index]
        part.new = 1
        del part.array, part.infos
        part.info_dict.clear()
    assert list(batch.keys()) == names
    assert_identical(batch, before)


@given(cuts=st.lists(st.integers(0, 7), min_size=1, max_size=4))
def test_cat_keeps_every_row_of_every_field_in_order(cuts):
    batch, parts, expected = everything(8), [], []
    for cut in cuts:
        parts.append(batch[cut:])
        expected += range(cut, 8)
    assert_rows(Batch.cat(parts), expected)


def test_stack_of_rows_gives_the_rows_back():
    batch = everything(6)
    assert_rows(Batch.stack(list(batch)), list(range(6)))
    del batch.dist
    assert Batch(batch.to_list_of_dicts()).to_dict().keys() == batch.to_dict().keys()


def test_object_arrays_are_indexed_by_row_and_not_as_one_blob():
    batch = Batch(a=np.array([{"x"}, None, "z"], dtype=object))
    assert batch[2].a == "z"
    assert list(batch[1:].a) == [None, "z"]
    assert list(Batch.cat([batch[:1], batch[2:]]).a) == [{"x"}, "z"]


def test_distributions_are_indexed_by_row_and_not_as_one_blob():
    batch = Batch(dist=Normal(torch.arange(4.0), torch.ones(4)))
    assert batch[3].dist.mean == 3.0
    assert batch[[1, 2]].dist.mean.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("swap", [False, True], ids=["first lacks", "second lacks"])
def test_a_field_that_one_item_lacks_is_never_dropped(swap):
    pair = [Batch(a=[1], n={"x": [1]}), Batch(a=[2], n={"x": [2], "y": [3]}, b=["text"], t=torch.ones(1))]
    pair = pair[::-1] if swap else pair
    for joined in (Batch.stack(pair), Batch.cat(pair, missing="pad"), Batch([part.to_dict() for part in pair])):
        assert set(joined.keys()) == {"a", "n", "b", "t"}
        assert set(joined.n.keys()) == {"x", "y"}
        assert len(joined) == 2
        assert len(joined.n.y) == len(joined.b) == len(joined.t) == 2
    with pytest.raises(errors.StructureError, match="'b'"):
        Batch.cat(pair)
    with pytest.raises(errors.StructureError, match="'b'"):
        Batch.stack(pair, missing="error")


@pytest.mark.parametrize("gap", [{}, Batch()], ids=["dict", "Batch"])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_an_empty_row_is_a_row(gap, position):
    rows: list[Any] = [{"a": 1}, {"a": 2}]
    rows.insert(position, gap)
    for stacked in (Batch.stack(rows), Batch(rows)):
        expected = [1, 2]
        expected.insert(position, 0)
        assert_array(stacked.a, expected)


def test_cat_of_arrays_and_tensors_is_refused_rather_than_converted():
    with pytest.raises(errors.StructureError, match="'a'"):
        Batch.cat([Batch(a=np.zeros(1)), Batch(a=torch.zeros(1))])


def test_cat_in_place_into_reserved_fields_equals_cat():
    batch = Batch(a=Batch())
    batch.cat_([Batch(a=[1])])
    assert batch == Batch.cat([Batch(a=Batch()), Batch(a=[1])]) == Batch(a=[1])


@pytest.mark.parametrize("join", [Batch.cat, Batch.stack])
def test_a_generator_of_batches_is_joined_like_a_list(join):
    parts = [Batch(a=[1]), Batch(a=[2])]
    assert join(part for part in parts) == join(parts)


@pytest.mark.parametrize("join", [Batch.cat, Batch.stack])
@pytest.mark.parametrize("parts", [[Batch(a=[1]), Batch(a=[2])], [Batch(a=[1]), Batch(b=[2])]], ids=["same", "other"])
def test_a_misspelt_missing_policy_is_no_policy(join, parts):
    with pytest.raises(TypedBatchError, match="eror"):
        join(parts, missing="eror")


# ---- copies ----------------------------------------------------------------------------------------------------------


def shared_leaves() -> dict[str, Any]:
    return {
        "array": np.zeros(3),
        "view": np.zeros((4, 3))[1],
        "tensor": torch.zeros(3),
        "grad": torch.zeros(3, requires_grad=True),
        "inside": torch.zeros(3, requires_grad=True) * 1,
        "objects": np.array([[0], None, {"k": 0}], dtype=object),
        "nested": {"array": np.zeros(3), "deep": {"tensor": torch.zeros(3)}},
        "dist": Normal(torch.zeros(3), torch.ones(3)),
        "set": {0},
    }


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.deepcopy,
        lambda b: Batch(b, copy=True),
        lambda b: Batch(b.to_dict(), copy=True),
        lambda b: Batch(**b.to_dict(), copy=True),
    ],
    ids=["deepcopy", "of a Batch", "of a dict", "of keywords"],
)
def test_a_deep_copy_shares_no_memory(duplicate):
    batch = Batch(shared_leaves())
    twin = duplicate(batch)
    with torch.no_grad():
        for name in ("array", "view", "tensor", "grad", "inside"):
            twin[name][:] = 7
        twin.nested.array[:] = 7
        twin.nested.deep.tensor[:] = 7
        twin.dist.loc[:] = 7
    twin.objects[0].append(7)
    twin.objects[2]["k"] = 7
    twin.set.add(7)
    assert_identical(batch, Batch(shared_leaves()))


def test_a_deep_copy_keeps_gradients_wanted_and_fields_that_are_one():
    tensor, array = torch.zeros(2, requires_grad=True), np.zeros(2)
    twin = copy.deepcopy(Batch(t=tensor, a=array, n={"a": array}))
    assert twin.t.requires_grad
    assert twin.n.a is twin.a


def test_setting_and_deleting_in_a_shallow_copy_does_not_reach_the_source():
    batch = Batch(a=[1], n={"x": [1], "deep": {"y": [2]}})
    for twin in (copy.copy(batch), batch.copy(), Batch(batch), batch[:]):
        twin.a, twin.n.x, twin.n.deep.y = [9], [9], [9]
        del twin.n.x
        twin.n.deep.new = 1
    assert_identical(batch, Batch(a=[1], n={"x": [1], "deep": {"y": [2]}}))


OUT_OF_PLACE: dict[str, Callable[[Batch], Any]] = {
    "to_torch": Batch.to_torch,
    "to_numpy": Batch.to_numpy,
    "to_at_least_2d": Batch.to_at_least_2d,
    "isnull": Batch.isnull,
    "dropnull": Batch.dropnull,
    "empty": Batch.empty,
    "empty at": lambda b: Batch.empty(b, 0),
    "cat": lambda b: Batch.cat([b, b]),
    "stack": lambda b: Batch.stack([b, b]),
    "split": lambda b: list(b.split(2)),
    "transform": lambda b: b.apply_values_transform(lambda leaf: 0),
    "add": lambda b: b + 1,
    "negate": operator.neg,
    "divide": lambda b: b / 2,
    "add a batch": lambda b: b + b,
    "np.exp": np.exp,
    "np.mean": np.mean,
}


@pytest.mark.parametrize("name", OUT_OF_PLACE)
def test_an_operation_that_is_not_in_place_leaves_its_source(name):
    batch = Batch(a=np.arange(3.0), n={"t": torch.arange(3.0), "i": [1, 2, 3]}, r=Batch())
    before = copy.deepcopy(batch)
    result = OUT_OF_PLACE[name](batch)
    assert result is not batch
    assert_identical(batch, before)


# ---- an operation that fails changes nothing -------------------------------------------------------------------------


def read_only() -> np.ndarray:
    array = np.zeros(3)
    array.setflags(write=False)
    return array


def inference_tensor() -> torch.Tensor:
    with torch.inference_mode():
        return torch.zeros(3)


# The first field could take the change, the second cannot: a loop that writes as it goes leaves half of it done.
HALF: dict[str, tuple[Callable[[], Any], Callable[[Batch], Any]]] = {
    "+= float, integers": (lambda: np.arange(3), lambda b: operator.iadd(b, 0.5)),
    "/= on integers": (lambda: np.arange(3), lambda b: operator.itruediv(b, 2)),
    "+= on text": (lambda: "text", lambda b: operator.iadd(b, 1)),
    "+= on a distribution": (lambda: Normal(torch.zeros(3), 1.0), lambda b: operator.iadd(b, 1)),
    "+= on read-only memory": (read_only, lambda b: operator.iadd(b, 1)),
    "+= on a field with None": (lambda: np.array([1, None, 2], dtype=object), lambda b: operator.iadd(b, 1)),
    "+= out of range": (lambda: np.zeros(3, np.uint8), lambda b: operator.iadd(b, 300)),
    "+= with another shape": (lambda: np.zeros(2), lambda b: operator.iadd(b, np.ones(3))),
    "+= on bool": (lambda: np.array([True, False, True]), lambda b: operator.iadd(b, 1)),
    "-= on bool": (lambda: np.array([True, False, True]), lambda b: operator.isub(b, True)),
    "**= negative, integers": (lambda: np.arange(1, 4), lambda b: operator.ipow(b, -1)),
    "**= negative array, integers": (lambda: np.arange(1, 4), lambda b: operator.ipow(b, np.array([-1, -1, -1]))),
    "+= on a leaf that requires grad": (lambda: torch.zeros(3, requires_grad=True), lambda b: operator.iadd(b, 1)),
    "+= on a view of such a leaf": (lambda: torch.zeros(3, requires_grad=True)[:], lambda b: operator.iadd(b, 1)),
    "+= on an expanded tensor": (lambda: torch.zeros(1).expand(3), lambda b: operator.iadd(b, 1)),
    "+= on a tensor of inference mode": (inference_tensor, lambda b: operator.iadd(b, 1)),
    "//= by a zero, integer tensors": (
        lambda: torch.ones(3, dtype=torch.int64),
        lambda b: operator.ifloordiv(b, Batch(first=2, second=torch.tensor([1, 0, 1]))),
    ),
    "%= by a zero, integer tensors": (
        lambda: torch.ones(3, dtype=torch.int64),
        lambda b: operator.imod(b, Batch(first=0.75, second=torch.tensor([1, 0, 1]))),
    ),
    "**= negative, integer tensors": (
        lambda: torch.ones(3, dtype=torch.int64),
        lambda b: operator.ipow(b, Batch(first=2, second=torch.tensor([1, -1, 1]))),
    ),
    "+= text among numbers": (lambda: np.array([1, "x"], dtype=object)[[0, 1, 0]], lambda b: operator.iadd(b, 1)),
    "+= a batch with text": (lambda: np.zeros(3), lambda b: operator.iadd(b, Batch(first=1, second="x"))),
    "+= a batch with another shape": (lambda: np.zeros(3), lambda b: operator.iadd(b, Batch(first=1, second=[1, 2]))),
    "row of the wrong shape": (lambda: np.zeros((3, 2)), lambda b: b.set_rows(0, {"first": 9, "second": [1, 2, 3]})),
    "row of text": (lambda: np.zeros(3), lambda b: b.set_rows(0, {"first": 9, "second": "x"})),
    "row of None": (lambda: np.zeros(3), lambda b: b.set_rows(0, {"first": 9, "second": None})),
    "row into read-only memory": (read_only, lambda b: b.set_rows(0, {"first": 9, "second": 1})),
    "row into a shorter field": (lambda: np.zeros(2), lambda b: b.set_rows(2, {"first": 9, "second": 1})),
    "row into a shorter tensor": (lambda: torch.zeros(2), lambda b: b.set_rows([0, 2], {"first": 9, "second": 1})),
    "row into a nested batch": (lambda: Batch(x=[1, 2, 3]), lambda b: b.set_rows(0, {"first": 9, "second": 1})),
    "row with a new nested name": (
        lambda: Batch(x=[1, 2, 3]),
        lambda b: b.set_rows(0, {"first": 9, "second": {"y": 1}}),
    ),
    "row into text": (lambda: "text", lambda b: b.set_rows(0, {"first": 9})),
    "row into None": (lambda: None, lambda b: b.set_rows(0, {"first": 9, "second": 1})),
    "row into a distribution": (lambda: Normal(torch.zeros(3), 1.0), lambda b: b.set_rows(0, {"first": 9})),
    "row into a reserved field": (Batch, lambda b: b.set_rows(0, {"first": 9, "second": {"x": 1}})),
    "row into a leaf that requires grad": (
        lambda: torch.zeros(3, requires_grad=True),
        lambda b: b.set_rows(0, {"first": 9, "second": 1}),
    ),
    "row into a view of such a leaf": (
        lambda: torch.zeros(3, requires_grad=True)[:],
        lambda b: b.set_rows(0, {"first": 9, "second": 1}),
    ),
    "row into a tensor of inference mode": (
        inference_tensor,
        lambda b: b.set_rows(0, {"first": 9, "second": 1}),
    ),
    "row of 2.7 into integers": (lambda: np.arange(3), lambda b: b.set_rows(0, {"first": 9, "second": 2.7})),
    "clearing a row of a distribution": (lambda: Normal(torch.zeros(3), 1.0), lambda b: b.empty_(0)),
    "clearing a row out of range": (lambda: np.zeros(2), lambda b: b.empty_(2)),
    "update with ragged tensors": (
        lambda: np.zeros(3),
        lambda b: b.update(first=1, second=[torch.zeros(1), torch.zeros(2)]),
    ),
    "update with a number as nested name": (lambda: np.zeros(3), lambda b: b.update({"first": 9, "second": {1: 2}})),
    "to_torch_ of a dtype torch lacks": (lambda: np.zeros(3, np.longdouble), lambda b: b.to_torch_()),
    "to_torch_ of such a dtype with dtype=": (
        lambda: np.zeros(3, np.longdouble),
        lambda b: b.to_torch_(dtype=torch.float32),
    ),
    "cat_ of another shape": (lambda: np.zeros((3, 2)), lambda b: b.cat_(Batch(first=[1.0], second=[[1.0]]))),
    "cat_ of another kind": (lambda: np.zeros(3), lambda b: b.cat_(Batch(first=[1.0], second=torch.zeros(1)))),
    "cat_ of a scalar": (lambda: np.zeros(3), lambda b: b.cat_(Batch(first=[1.0], second=1.0))),
    "stack_ of another shape": (lambda: np.zeros(3), lambda b: b.stack_([Batch(first=np.ones(3), second=[1.0])])),
    "a nested result with a number as name": (
        lambda: np.zeros(3),
        lambda b: b.apply_values_transform(lambda leaf: leaf if leaf.sum() else {1: 2}, inplace=True),
    ),
}


@pytest.mark.parametrize("case", HALF)
def test_a_failed_operation_changes_nothing_and_names_the_field(case):
    make, operation = HALF[case]
    batch = Batch(first=np.ones(3), second=make())
    before, identities = copy.deepcopy(batch), {name: id(leaf) for name, leaf in batch.__dict__.items()}
    with pytest.raises(TypedBatchError, match="second"):
        operation(batch)
    assert_identical(batch, before)
    assert {name: id(leaf) for name, leaf in batch.__dict__.items()} == identities


def test_a_failure_inside_a_nested_batch_is_named_by_its_path_and_changes_nothing():
    batch = Batch(first=np.ones(3), outer={"inner": {"first": np.ones(3), "second": [1, 2, 3]}})
    before = copy.deepcopy(batch)
    for operation in (
        lambda: operator.iadd(batch, 0.5),
        lambda: batch.set_rows(0, {"first": 1, "outer": {"inner": {"first": 9, "second": "x"}}}),
        lambda: batch.cat_(Batch(first=[1.0], outer={"inner": {"first": [1.0], "second": [[1]]}})),
        lambda: batch[:, 0],
        lambda: batch.update(outer={"inner": {"second": [torch.zeros(1), torch.zeros(2)]}}),
    ):
        with pytest.raises(TypedBatchError, match=r"first|outer\.inner\.second"):
            operation()
        assert_identical(batch, before)


def test_a_function_that_raises_leaves_the_batch():
    batch = Batch(a=[1], b=[2], n={"c": [0]})
    before = copy.deepcopy(batch)
    with pytest.raises(ZeroDivisionError):
        batch.apply_values_transform(lambda leaf: 1 // int(leaf[0]), inplace=True)
    assert_identical(batch, before)


# ---- bad input at every public method --------------------------------------------------------------------------------


def fields() -> Batch:
    return Batch(a=[1, 2, 3], n={"x": [1.0, 2.0, 3.0]}, t=torch.arange(3), o=["u", "v", "w"])


LONG = np.zeros(3, np.longdouble)

# What is done, and what the message must say about it.
BAD: dict[str, tuple[Callable[[Batch], Any], str]] = {
    # names
    "read attribute": (lambda b: b.obs, "obs"),
    "read item": (lambda b: b["obs"], "obs"),
    "read nested": (lambda b: b.n.y, "y"),
    "delete attribute": (lambda b: delattr(b, "obs"), "obs"),
    "delete item": (lambda b: b.__delitem__("obs"), "obs"),
    "setdefault with a number as name": (lambda b: b.setdefault(1, 2), "1"),
    "update with a number as name": (lambda b: b.update({"a": 0, 1: 2}), "1"),
    "update with a number": (lambda b: b.update(5), "int"),
    "update with text": (lambda b: b.update("ab"), "str"),
    "set ragged tensors": (lambda b: setattr(b, "q", [torch.zeros(1), torch.zeros(2)]), "q"),
    "set ragged tensors by item": (lambda b: b.__setitem__("q", [torch.zeros(1), torch.zeros(2)]), "q"),
    "set ragged tensors, nested": (lambda b: setattr(b, "q", {"deep": [torch.zeros(1), torch.zeros(2)]}), r"q\.deep"),
    "set ragged arrays": (lambda b: setattr(b, "q", [np.zeros((3, 2)), np.zeros((3, 3))]), "q"),
    "set a name of the class": (lambda b: setattr(b, "shape", [1, 2, 3]), "shape"),
    # construction
    "construct with a number as name": (lambda b: Batch({1: 2}), "1"),
    "construct with a number as nested name": (lambda b: Batch(n={"m": {1: 2}}), r"n\.m"),
    "construct from rows with a number as name": (lambda b: Batch([{"a": {1: 2}}, {"a": {1: 2}}]), "a"),
    "construct from rows that do not fit": (lambda b: Batch([{"q": np.zeros(2)}, {"q": np.zeros(3)}]), "q"),
    # rows
    "index out of range": (lambda b: b[9], "a"),
    "index out of range, nested": (lambda b: Batch(n={"m": b})[9], r"n\.m\.a"),
    "index list out of range": (lambda b: b[[0, 9]], "a"),
    "index with text in a list": (lambda b: b[["a"]], "rows"),
    "index with a float": (lambda b: b[1.5], "a"),
    "index with an object": (lambda b: b[object()], "a"),
    "index with a dict": (lambda b: b[{}], "a"),
    "index with too many dimensions": (lambda b: b[0, 0], "a"),
    "index with a mask of another length": (lambda b: b[np.array([True, False])], "a"),
    "index with a tensor mask of another length": (lambda b: b[torch.tensor([True])], "a"),
    "index with floats": (lambda b: b[np.array([0.0, 1.0])], "rows"),
    "index with a ragged list": (lambda b: b[[[0], [0, 1]]], "rows|a|index"),
    "index with a slice without step": (lambda b: b[::0], "a|step"),
    "index a scalar": (lambda b: b[0][0], "a"),
    "index a scalar distribution": (lambda b: Batch(d=Normal(0.0, 1.0))[0], "d"),
    "assign a number": (lambda b: b.__setitem__(0, 5), "dict"),
    "assign None": (lambda b: b.__setitem__(0, None), "dict"),
    "assign a new name": (lambda b: b.__setitem__(0, {"a": 1, "new": 2}), "new"),
    "assign a new nested name": (lambda b: b.__setitem__(0, {"n": {"new": 2}}), "n.*new"),
    "assign out of range": (lambda b: b.__setitem__(9, {"a": 1}), "a"),
    "assign at a float": (lambda b: b.__setitem__(1.5, {"a": 1}), "a"),
    "assign at a ragged list": (lambda b: b.__setitem__([[0], [0, 1]], {"a": 1}), "a"),
    "assign at a slice without step": (lambda b: b.__setitem__(slice(None, None, 0), {"a": 1}), "a"),
    "assign at a mask of another length": (lambda b: b.__setitem__(np.array([True]), {"a": 1}), "a"),
    "assign too many rows": (lambda b: b.__setitem__(slice(0, 2), {"a": [1, 2, 3]}), "a"),
    "assign a nested batch into an array": (lambda b: b.__setitem__(0, {"a": {"x": 1}}), "a"),
    "assign a nested batch into objects": (lambda b: b.__setitem__(0, {"o": {"x": 1}}), "o"),
    "assign text into a tensor": (lambda b: b.__setitem__(0, {"t": "x"}), "t"),
    "assign strictly without a field": (lambda b: b.set_rows(0, {"a": 1}, strict=True), "'n'"),
    "empty_ out of range": (lambda b: b.empty_(9), "a"),
    "empty out of range": (lambda b: Batch.empty(b, 9), "a"),
    "empty of a number": (lambda b: Batch.empty(5), "int"),
    # size
    "length of a scalar": (lambda b: len(b[0]), "a"),
    "length of a nested scalar": (lambda b: len(Batch(q=b[0])), r"q\.a"),
    "truth of a scalar": (lambda b: bool(b[0]), "a"),
    "rows of a scalar": (lambda b: iter(b[0]), "a"),
    "rows of a scalar as dicts": (lambda b: b[0].to_list_of_dicts(), "a"),
    "split a scalar": (lambda b: list(b[0].split(1)), "a"),
    "split by 0": (lambda b: b.split(0), "0"),
    "split by -2": (lambda b: b.split(-2), "-2"),
    "split by a float": (lambda b: list(b.split(1.5)), "1.5"),
    "split by text": (lambda b: list(b.split("a")), "str|a"),
    "split by None": (lambda b: list(b.split(None)), "None"),
    "dropnull of a scalar": (lambda b: b[0].dropnull(), "a"),
    # together
    "cat a number": (lambda b: Batch.cat([b, 5]), "int"),
    "cat no sequence": (lambda b: Batch.cat(5), "int"),
    "cat None": (lambda b: Batch.cat(None), "None"),
    "cat text": (lambda b: Batch.cat("ab"), "str"),
    "cat other fields": (lambda b: Batch.cat([b, Batch(a=[1])]), "'n'"),
    "cat other nested fields": (lambda b: Batch.cat([Batch(n={"x": [1]}), Batch(n={"y": [1]})]), "n.*'x'"),
    "cat other kinds": (lambda b: Batch.cat([Batch(n={"x": [1]}), Batch(n={"x": torch.zeros(1)})]), r"n\.x"),
    "cat other shapes": (lambda b: Batch.cat([Batch(n={"x": [[1]]}), Batch(n={"x": [[1, 2]]})]), r"n\.x"),
    "cat an array and a batch": (lambda b: Batch.cat([Batch(q=[1]), Batch(q={"x": [1]})]), "q"),
    "cat an array and None": (lambda b: Batch.cat([Batch(q=[1]), Batch(q=None)]), "q"),
    "cat scalars": (lambda b: Batch.cat([b[0], b[1]]), "a"),
    "cat text leaves": (lambda b: Batch.cat([Batch(q="x"), Batch(q="y")]), "q"),
    "cat numbers as names": (lambda b: Batch.cat([{1: [2]}, {1: [2]}]), "1"),
    "cat_ a number": (lambda b: b.cat_(5), "int"),
    "cat_ numbers": (lambda b: b.cat_([5]), "int"),
    "cat_ other fields": (lambda b: b.cat_(Batch(a=[1])), "'n'"),
    "stack a number": (lambda b: Batch.stack([b, 5]), "int"),
    "stack no sequence": (lambda b: Batch.stack(5), "int"),
    "stack other shapes": (lambda b: Batch.stack([Batch(n={"x": [1]}), Batch(n={"x": [1, 2]})]), r"n\.x"),
    "stack other tensor shapes": (lambda b: Batch.stack([Batch(q=torch.zeros(1)), Batch(q=torch.zeros(2))]), "q"),
    "stack an array and a batch": (lambda b: Batch.stack([Batch(q=np.zeros(1)), Batch(q={"x": 1})]), "q"),
    "stack along no axis": (lambda b: Batch.stack([b, b], axis=7), "a"),
    "stack with gaps along axis 1": (lambda b: Batch.stack([b, Batch(a=[1, 2, 3])], axis=1), "n|x"),
    "stack_ other fields, refused": (lambda b: b.stack_([Batch(a=[1, 2, 3])], missing="error"), "'n'"),
    "stack_ no sequence": (lambda b: b.stack_(5), "int"),
    "np.concatenate with a number": (lambda b: np.concatenate([b, 5]), "int"),
    "np.concatenate of other fields": (lambda b: np.concatenate([b, Batch(a=[1])]), "'n'"),
    "np.concatenate along axis 1": (lambda b: np.concatenate([b, b], axis=1), "axis"),
    "np.stack with a number": (lambda b: np.stack([b, 5]), "int"),
    # conversion
    "to_torch of a dtype that torch lacks": (lambda b: Batch(n={"q": LONG}).to_torch(), r"n\.q"),
    "to_torch of such a dtype, cast": (lambda b: Batch(n={"q": LONG}).to_torch(torch.float32), r"n\.q"),
    # transformation
    "a transformation to a number as name": (lambda b: b.apply_values_transform(lambda leaf: {1: 2}), "a"),
    # a field from an array
    "set_array_at_key of another length": (lambda b: b.set_array_at_key(np.zeros(2), "q"), "q"),
    "set_array_at_key of a number": (lambda b: b.set_array_at_key(5, "q"), "q"),
    "set_array_at_key of None": (lambda b: b.set_array_at_key(None, "q"), "q"),
    "set_array_at_key of text": (lambda b: b.set_array_at_key("abc", "q"), "q"),
    "set_array_at_key of another length at rows": (lambda b: b.set_array_at_key(np.zeros(3), "q", [0, 1]), "q"),
    "set_array_at_key at rows out of range": (lambda b: b.set_array_at_key(np.zeros(1), "q", [9]), "q"),
    "set_array_at_key into a nested batch": (lambda b: b.set_array_at_key(np.zeros(2), "n", [0, 1]), "n"),
    "set_array_at_key with a bad default": (lambda b: b.set_array_at_key(np.zeros(1), "q", [0], "text"), "q"),
    "set_array_at_key with a number as name": (lambda b: b.set_array_at_key(np.zeros(3), 5), "5"),
    # arithmetic
    "add other fields": (lambda b: b + Batch(a=1), "'n'"),
    "add to text": (lambda b: Batch(q="x") + 1, "q"),
    "add to objects": (lambda b: Batch(n={"q": ["x", None]}) + 1, r"n\.q"),
    "add another shape": (lambda b: Batch(n={"q": np.zeros(3)}) + np.zeros(2), r"n\.q"),
    "add in place what would grow": (lambda b: operator.iadd(Batch(q=np.zeros(3)), np.ones((2, 3))), "q"),
    "negate bool": (lambda b: -Batch(q=[True]), "q"),
    "a ufunc on text": (lambda b: np.exp(Batch(q="x")), "q"),
    "a mean of text": (lambda b: np.mean(Batch(n={"q": ["x"]})), r"n\.q"),
    "a mean along no axis": (lambda b: np.mean(Batch(n={"q": [1]}), axis=9), r"n\.q"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_by_an_error_of_ours_that_names_the_field(case):
    operation, says = BAD[case]
    batch = fields()
    with pytest.raises(TypedBatchError, match=says) as caught:
        operation(batch)
    assert type(caught.value).__module__ == "typedbatch.errors"
    assert_identical(batch, fields())


@pytest.mark.parametrize(
    "case",
    [
        *("read item", "set ragged tensors, nested", "index out of range, nested", "assign a new nested name"),
        *("length of a nested scalar", "split by 0", "cat other shapes", "construct with a number as name"),
    ],
)
def test_an_error_keeps_its_text_in_a_pickle(case):
    with pytest.raises(TypedBatchError) as caught:
        BAD[case][0](fields())
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_array_equal_of_a_batch_and_something_else_is_false():
    assert np.array_equal(Batch(a=[1]), 5) is False
    assert np.array_equal(5, Batch(a=[1])) is False


def test_every_public_method_meets_bad_input_or_takes_anything():
    # A new method must come with its bad input: add it to BAD or HALF, or here if nothing can go wrong.
    harmless = {
        *(
            "allclose",
            "clear",
            "copy",
            "get",
            "get_keys",
            "hasnull",
            "is_empty",
            "isnull",
            "items",
            "keys",
            "pop",
            "popitem",
        ),
        *(
            "replace_empty_batches_by_none",
            "shape",
            "to_at_least_2d",
            "to_dict",
            "to_numpy",
            "to_numpy_",
            "values",
            "plain",
        ),
    }
    source = inspect.getsource(sys.modules[__name__])
    fed = {name for name in dir(Batch) if f".{name}(" in source}
    assert {name for name in dir(Batch) if not name.startswith("_")} <= fed | harmless
