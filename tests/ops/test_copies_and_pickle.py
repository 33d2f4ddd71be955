"""Copies and pickles: what a copy shares with its source, and what a pickle keeps."""

from __future__ import annotations

import copy
import functools
import operator
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from tests.ops.helpers import assert_identical, rollout
from typedbatch import Batch, errors


@pytest.mark.parametrize("duplicate", [copy.copy, Batch.copy, Batch], ids=["copy.copy", "copy", "Batch"])
def test_a_shallow_copy_has_its_own_nested_batches_and_shares_the_arrays(duplicate):
    batch = rollout()
    other = duplicate(batch)
    assert type(other) is Batch
    assert other is not batch
    assert other.obs is not batch.obs
    assert other.rew is batch.rew
    assert other.obs.cam is batch.obs.cam
    other.new, other.obs.new = 1, 1
    assert "new" not in batch
    assert "new" not in batch.obs


def shared_leaves() -> dict[str, Any]:
    return {
        "array": np.zeros(3), "view": np.zeros((4, 3))[1], "tensor": torch.zeros(3),
        "grad": torch.zeros(3, requires_grad=True), "inside": torch.zeros(3, requires_grad=True) * 1,
        "objects": np.array([[0], None, {"k": 0}], dtype=object),
        "nested": {"array": np.zeros(3), "deep": {"tensor": torch.zeros(3)}},
        "dist": Normal(torch.zeros(3), torch.ones(3)), "set": {0},
    }  # fmt: skip


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


class Lean(Batch):
    def __getstate__(self) -> dict[str, Any]:
        return {"a": self["a"]}


class Remade(Batch):
    def __reduce__(self) -> tuple[Any, ...]:
        return Remade, ({"made": 1},)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("leaf", [np.ones(2), torch.ones(2)], ids=["array", "tensor"])
def test_classes_say_what_a_pickle_keeps_of_them(protocol, leaf):
    back = pickle.loads(pickle.dumps([Lean(a=leaf, cache=1), Remade(a=leaf), Batch(a=leaf)], protocol))
    assert [list(batch.keys()) for batch in back] == [["a"], ["made"], ["a"]]
    assert back[2] == Batch(a=leaf)


def test_a_tensor_in_two_nested_batches_is_one_tensor_after_a_pickle():
    tensor = torch.ones(1000)
    batch = Batch(obs={"x": tensor}, obs_next={"x": tensor}, again=Batch(deep={"x": tensor}))
    data = pickle.dumps(batch)
    back = pickle.loads(data)
    assert back.obs.x is back.obs_next.x is back.again.deep.x
    assert len(data) < 4000 + 1000
    assert pickle.loads(pickle.dumps(batch)).obs.x is not back.obs.x


def test_a_class_keeps_everything_in_its_fields():
    with pytest.raises(errors.DeclarationError, match=r"Slotted has __slots__, which copies would lose"):

        class Slotted(Batch):
            __slots__ = ("extra",)

    with pytest.raises(errors.DeclarationError, match=r"Cached\.total would keep its value among the fields"):

        class Cached(Batch):
            @functools.cached_property
            def total(self) -> int:
                return 1


def test_a_nested_batch_in_two_places_is_one_in_a_deepcopy_whatever_its_class():
    class Own(Batch):
        def __deepcopy__(self, memo: dict[int, Any]) -> "Own":
            return Own(copy.deepcopy(dict(self.__dict__), memo))

    for inner in (Own(x=np.ones(1)), Batch(x=np.ones(1))):
        copied = copy.deepcopy(Batch(a=inner, b={"c": inner}))
        assert copied.a is copied.b.c
        assert copied.a is not inner


def test_a_class_adds_to_the_state_of_an_empty_batch():
    back = pickle.loads(pickle.dumps(Adding()))
    assert list(back.keys()) == ["z"]


class Adding(Batch):
    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "z": 1}


def test_threads_pickle_the_same_tensor_each_for_itself():
    tensor = torch.ones(3)
    batch = Batch(n={"a": tensor}, m={"a": tensor})

    def there_and_back(_: int) -> bool:
        back = pickle.loads(pickle.dumps(batch, 5))
        return back.n.a is back.m.a

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            assert all(pool.map(there_and_back, range(2000)))
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning")
@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.complex32, torch.bfloat16], ids=str
)
def test_dtypes_that_numpy_lacks_are_kept_in_a_pickle(dtype):
    batch = Batch(a=torch.tensor([1.5, 2.0]).to(dtype))
    back = pickle.loads(pickle.dumps(batch))
    assert back.a.dtype == dtype
    assert back.a.view(torch.uint8).tolist() == batch.a.view(torch.uint8).tolist()


def test_mixins_keep_nothing_beside_the_fields():
    class Mixin:
        __slots__ = ("q",)

    with pytest.raises(errors.DeclarationError, match="has __slots__"):

        class Mixed(Mixin, Batch):
            pass


@pytest.mark.parametrize("operation", [copy.deepcopy, pickle.dumps, Batch.copy, repr, Batch.hasnull, Batch.to_torch])
def test_a_batch_nested_beyond_pythons_depth_says_so(operation):
    batch = Batch(a=1)
    for _ in range(100_000):  # since Python 3.14 pickle takes some 20_000
        outer = Batch()
        outer.__dict__["n"], batch = batch, outer
    with pytest.raises(RecursionError):
        operation(batch)
