"""Every public method, fed what it cannot take: the error is typedbatch's own, names the field, and the batch stays."""

from __future__ import annotations

import operator
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.distributions import Normal

from tests.ops.helpers import assert_identical
from typedbatch import Batch, ObsBatch, objects
from typedbatch.errors import TypedBatchError


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
    "construct from a 0-d array": (lambda b: Batch(np.array(5)), "i64"),
    "construct from a list of a number and a tensor that requires grad": (
        lambda b: Batch(q=[1.0, torch.ones((), requires_grad=True)]),
        "q.*requires grad",
    ),
    "construct from a list of an array and bfloat16": (
        lambda b: Batch(q=[torch.ones(2, dtype=torch.bfloat16), np.ones(2)]),
        "q.*BFloat16",
    ),
    "rows that lack a key": (lambda b: Batch.from_rows([{"q": {"x": 1}}, {"q": {}}]), r"q\.x.*row 1"),
    "rows that are numbers": (lambda b: Batch.from_rows([{"q": 1}, 5]), "int as row 1"),  # type: ignore[list-item]
    "rows that are a dict": (lambda b: Batch.from_rows({"q": 1}), "dict"),  # type: ignore[arg-type]
    "rows with a number as name": (lambda b: Batch.from_rows([{1: 2}]), "1 in row 0"),  # type: ignore[dict-item]
    "rows with a wrong missing": (lambda b: Batch.from_rows([], missing="pad"), "'pad'"),  # type: ignore[arg-type]
    "objects of text": (lambda b: Batch(q=objects("abc")), "one for each row, got str"),
    "objects of a number": (lambda b: Batch(q=objects(5)), "one for each row, got int"),  # type: ignore[arg-type]
    "copy what cannot be copied": (lambda b: Batch(q=threading.Lock(), copy=True), "q.*lock"),
    # rows
    "index beyond 64 bits": (lambda b: b[2**63], "a"),
    "assign beyond 64 bits": (lambda b: b.__setitem__(2**63, {"a": 1}), "a"),
    "index out of range": (lambda b: b[9], "a"),
    "index out of range, nested": (lambda b: Batch(n={"m": b})[9], r"n\.m\.a"),
    "index list out of range": (lambda b: b[[0, 9]], "a"),
    "index with text in a list": (lambda b: b[["a"]], r"rows.*; rows\.project\(batch, protocol\) selects fields"),
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
    "assign a nested batch into objects": (lambda b: b.__setitem__(0, {"o": Batch(x=1)}), "o"),
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
    "split with text for a seed": (lambda b: list(b.split(1, rng="x")), "rng=.*'x'"),
    "dropnull of a scalar": (lambda b: b[0].dropnull(), "a"),
    # together
    "cat two arguments": (lambda b: Batch.cat(b, b), r"must be given as one list, \[a, b\]"),
    "stack two arguments": (lambda b: Batch.stack(b, b), r"must be given as one list, \[a, b\]"),
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
    "cat dtypes that have nothing in common": (
        lambda b: Batch.cat([{"a": [1.0], "q": np.zeros(1, "M8[s]")}, {"a": [1.0], "q": np.zeros(1)}]),
        "'q'.*do not fit together",
    ),
    "cat with a gap beside a scalar": (
        lambda b: Batch.cat([{"q": [1.0], "z": 5}, {"z": 5}], missing="pad"),
        "'q': missing in some batches.*'z': a scalar",
    ),
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
    "split of a record of unequal lengths": (
        lambda b: ObsBatch(obs=np.zeros(1), info=Batch(q=[1, 2])).split(1),
        r"info\.q has 2, others 1; rows would",
    ),
    "to of an array": (
        lambda b: Batch(n={"q": [1.0]}).to("meta"),
        r"n\.q.*to\(\) takes tensors, got f64\[1\]; to_torch\(\)",
    ),
    "to of a number": (lambda b: Batch(t=torch.ones(1), q=1).to("cpu"), r"q.*to\(\) takes tensors, got i64\[\]"),
    "to a device that is none": (lambda b: Batch(t=torch.ones(1)).to("gpu"), "torch has no device 'gpu'"),
    "to a dtype as a device": (lambda b: Batch(t=torch.ones(1)).to(torch.float16), "torch has no device torch.float16"),
    "to integers": (
        lambda b: Batch(t=torch.ones(1)).to(dtype=torch.int32),
        "dtype= must be a floating one.*torch.int32",
    ),
    "to_torch as integers": (lambda b: b.to_torch(torch.int32), "dtype= must be a floating one.*torch.int32"),
    "to_torch as text": (
        lambda b: b.to_torch("float"),
        "dtype= must be a dtype of torch, as torch.float32, got 'float'",
    ),
    "pin_memory of an array": (
        lambda b: Batch(n={"q": [1.0]}).pin_memory(),
        r"n\.q.*pin_memory\(\) takes tensors, got",
    ),
    "pin_memory of what is not on the CPU": (
        lambda b: Batch(q=torch.ones(1, device="meta")).pin_memory(),
        "q.*on meta cannot be pinned",
    ),
    "to_torch of a dtype that torch lacks": (lambda b: Batch(n={"q": LONG}).to_torch(), r"n\.q"),
    "to_torch of such a dtype, cast": (lambda b: Batch(n={"q": LONG}).to_torch(torch.float32), r"n\.q"),
    "to_torch of a dtype by name": (lambda b: b.to_torch(dtype="float32"), "torch.float32.*'float32'"),
    "to_torch_ of such a dtype": (lambda b: b.to_torch_(dtype="float32"), "torch.float32.*'float32'"),
    "to_torch on no device": (lambda b: b.to_torch(device="nonsense"), "no device 'nonsense'"),
    "to_numpy of a sparse tensor": (lambda b: Batch(n={"q": torch.eye(2).to_sparse()}).to_numpy(), r"n\.q.*dense"),
    "to_numpy of a tensor without memory": (lambda b: Batch(q=torch.ones(2, device="meta")).to_numpy(), "q.*meta"),
    # transformation
    "a transformation to a number as name": (lambda b: b.apply_values_transform(lambda leaf: {1: 2}), "a"),
    # a field from an array
    "set_array_at_key of another length": (lambda b: b.set_array_at_key(np.zeros(2), "q"), "q"),
    "set_array_at_key of a number": (lambda b: b.set_array_at_key(5, "q"), "q"),
    "set_array_at_key of None": (lambda b: b.set_array_at_key(None, "q"), "q"),
    "set_array_at_key of text": (lambda b: b.set_array_at_key("abc", "q"), "q"),
    "set_array_at_key of another length at rows": (lambda b: b.set_array_at_key(np.zeros(3), "q", [0, 1]), "q"),
    "set_array_at_key at rows out of range": (lambda b: b.set_array_at_key(np.zeros(1), "q", [9]), "q"),
    "set_array_at_key of fewer values than rows": (lambda b: b.set_array_at_key(np.ones(1), "a", [0, 2]), "a.*1.*2"),
    "set_array_at_key of fewer vectors than rows": (
        lambda b: Batch(q=np.zeros((3, 2))).set_array_at_key(np.ones(2), "q", [0, 1, 2]),
        "q.*2 values for 3 rows",
    ),
    "set_array_at_key over a nested batch": (lambda b: b.set_array_at_key(np.zeros(3), "n"), "n.*delete it first"),
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
    "add in place to a sparse tensor": (lambda b: operator.iadd(Batch(q=torch.eye(2).to_sparse()), 1), "q.*to_dense"),
    "assign into a sparse tensor": (lambda b: Batch(q=torch.eye(2).to_sparse()).set_rows(0, {"q": 1}), "q.*to_dense"),
    "add a tensor to an array in place": (lambda b: operator.iadd(Batch(q=[1.0]), torch.ones(1)), "q.*to_torch_"),
    "divide objects by zero": (lambda b: Batch(q=np.array([1, 2], object)) / 0, "q.*division by zero"),
    "a ufunc that torch lacks": (lambda b: np.cbrt(Batch(q=torch.ones(2))), "q.*to_numpy"),
    "a ufunc beyond the dtype of a tensor": (lambda b: np.add(Batch(q=torch.ones(2, dtype=torch.uint8)), 300), "q"),
    "take out of range": (lambda b: np.take(Batch(n={"q": [1.0]}), 5), r"n\.q"),
    "a mean into one array": (lambda b: np.mean(Batch(q=[1.0]), axis=0, out=np.zeros(())), "out="),
    "a sum into one array": (lambda b: np.sum(Batch(q=[1.0]), 0, None, np.zeros(())), "out="),
    "np.concatenate with a dtype": (lambda b: np.concatenate([b, b], dtype=float), "no other arguments"),
    "np.concatenate with an array to fill": (lambda b: np.concatenate([b, b], 0, None), "no other arguments"),
    "np.stack with a dtype": (lambda b: np.stack([b, b], dtype=float), "no other arguments"),
    "a mean of tensors along no axis": (lambda b: np.mean(Batch(n={"q": torch.ones(2)}), axis=1), r"n\.q"),
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


def test_every_public_method_meets_bad_input_or_takes_anything():
    # A new method must come with its bad input: in BAD or HALF, or here if nothing can go wrong.
    harmless = {
        "allclose", "clear", "copy", "get", "get_keys", "hasnull", "is_empty", "isnull", "items", "keys", "meta",
        "plain", "pop", "popitem", "replace_empty_batches_by_none", "shape", "to_at_least_2d", "to_dict", "to_numpy",
        "to_numpy_", "values",
    }  # fmt: skip
    tables = [Path(__file__), Path(__file__).with_name("test_failed_operations.py")]
    source = "".join(path.read_text(encoding="utf-8") for path in tables)
    fed = {name for name in dir(Batch) if f".{name}(" in source}
    assert {name for name in dir(Batch) if not name.startswith("_")} <= fed | harmless
