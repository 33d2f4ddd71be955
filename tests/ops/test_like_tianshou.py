"""Tianshou's Batch beside this one: the same work, side by side, and the same parameters."""

from __future__ import annotations

import copy
import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from tests.ops.helpers import assert_identical
from typedbatch import Batch


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


CONTENTS: dict[str, Any] = {
    "flat": lambda: {"a": np.arange(4), "b": np.linspace(0.0, 1.0, 4)},
    "lists": lambda: {"a": [1, 2, 3, 4], "b": [True, False, True, False], "c": (1.5, 2.5, 3.5, 4.5)},
    "matrices": lambda: {"a": np.arange(12.0).reshape(4, 3), "b": np.arange(8).reshape(4, 2)},
    "nested": lambda: {"obs": {"cam": np.zeros((4, 2, 2)), "deep": {"x": [1, 2, 3, 4]}}, "act": [0, 1, 0, 1]},
    "tensors": lambda: {"a": torch.arange(4), "n": {"t": torch.arange(8.0).reshape(4, 2)}},
    "tensor list": lambda: {"a": [torch.zeros(2), torch.ones(2), torch.zeros(2), torch.ones(2)]},
    "objects": lambda: {"a": [1, 2, 3, 4], "o": np.array(["x", None, "y", "z"], dtype=object)},
    "dict rows": lambda: {"info": [{"t": i, "done": False} for i in range(4)], "a": np.ones(4)},
    "object array of dicts": lambda: {"info": list(np.array([{"t": i} for i in range(4)], dtype=object))},
    "small dtypes": lambda: {"a": np.arange(4, dtype=np.uint8), "b": np.arange(4, dtype=np.float32)},
}


def assigned(batch: Any, index: Any, rows: Any) -> Any:
    batch = copy.deepcopy(batch)
    batch[index] = rows
    return batch


def changed(batch: Any, name: str, value: Any) -> Any:
    batch[name] = value
    return batch


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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("content", CONTENTS)
def test_the_same_contents_give_the_same_result(peer, content, operation):
    ours = OPERATIONS[operation](Batch(CONTENTS[content]()), Batch)
    theirs = OPERATIONS[operation](peer(CONTENTS[content]()), peer)
    assert_identical(plain(ours), plain(theirs))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("operation", [lambda b: b + 1, lambda b: b * 2, lambda b: b + b, lambda b: b / 2.0])
@pytest.mark.parametrize("content", ["float", "tensors"])
def test_the_same_arithmetic_on_floats(peer, content, operation):
    fields = {
        "float": {"a": np.arange(4.0), "n": {"b": np.ones((4, 2))}},
        "tensors": {"a": torch.arange(4.0), "n": {"b": torch.ones(4, 2)}},
    }[content]
    assert_identical(plain(operation(Batch(fields, copy=True))), plain(operation(peer(fields, copy=True))))


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
    assert_identical(plain(Batch.stack(batches)), plain(peer.stack(batches)))
    assert_identical(plain(Batch(batches)), plain(peer(batches)))


@pytest.mark.filterwarnings("ignore")
def test_reserved_fields_join_alike(peer):
    def joined(cls: Any) -> list[Any]:
        parts = [cls(a=cls(), b=[1, 2]), cls(a=[5], b=[3])]
        return [cls.cat(parts), cls.cat([cls(a=cls()), cls(a=[1])]), cls.stack([cls(a=cls(), b=1), cls(a=5, b=3)])]

    assert_identical(plain(joined(Batch)), plain(joined(peer)))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("size", "merge_last"), [(1, False), (4, False), (4, True), (-1, False), (100, True)])
def test_the_same_seed_splits_alike(peer, size, merge_last):
    def pieces(cls: Any) -> list[Any]:
        np.random.seed(11)
        return list(cls(a=np.arange(10), n={"b": np.arange(20).reshape(10, 2)}).split(size, merge_last=merge_last))

    assert_identical(plain(pieces(Batch)), plain(pieces(peer)))


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


PARAMETERS = {
    "get": ["key", "default"], "pop": ["key", "default"], "get_keys": [], "keys": [], "values": [], "items": [],
    "update": [], "to_dict": ["recursive"], "to_list_of_dicts": [], "to_numpy": [], "to_numpy_": [],
    "to_torch": ["dtype", "device"], "to_torch_": ["dtype", "device"],
    "apply_values_transform": ["values_transform", "inplace"], "cat": ["batches"], "cat_": ["batches"],
    "stack": ["batches", "axis"], "stack_": ["batches", "axis"], "empty": ["batch", "index"], "empty_": ["index"],
    "split": ["size", "shuffle", "merge_last"], "set_array_at_key": ["arr", "key", "index", "default_value"],
    "isnull": [], "hasnull": [], "dropnull": [], "replace_empty_batches_by_none": [], "to_at_least_2d": [],
}  # fmt: skip


@pytest.mark.parametrize("name", PARAMETERS)
def test_a_method_takes_tianshous_parameters_by_name(name):
    parameters = inspect.signature(getattr(Batch, name)).parameters
    usable = [p for p in parameters if parameters[p].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD and p != "self"]
    assert usable[: len(PARAMETERS[name])] == PARAMETERS[name]


@pytest.mark.parametrize(
    ("name", "parameter", "default"),
    [
        ("split", "shuffle", True), ("split", "merge_last", False), ("to_torch", "dtype", None),
        ("to_torch", "device", "cpu"), ("to_dict", "recursive", True), ("apply_values_transform", "inplace", False),
        ("stack", "axis", 0), ("empty", "index", None), ("set_array_at_key", "index", None),
        ("set_array_at_key", "default_value", None),
    ],
)  # fmt: skip
def test_a_parameter_has_tianshous_default(name, parameter, default):
    assert inspect.signature(getattr(Batch, name)).parameters[parameter].default == default


@pytest.mark.parametrize("name", ["cat", "stack", "empty"])
def test_static_methods_are_static(name):
    assert isinstance(inspect.getattr_static(Batch, name), staticmethod)
