"""Batches that are unusual, too large, too deep, or that were built to deceive."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sized
from typing import Any
from unittest.mock import MagicMock, Mock

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from jaxtyping import Float, Float32, Shaped
from torch import Tensor
from torch.distributions import Categorical, Normal

from tests.validation.helpers import Array, N, Refuses, Tree, fields, paths, record, refused
from typedbatch import (
    ActStateBatch,
    Batch,
    BatchRecord,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    conforms,
    convert,
    validate,
)


def test_zero_rows_are_rows():
    assert len(validate(Batch(fields(0)), RolloutBatchProtocol)) == 0
    assert paths(Batch(fields(0, rew=np.zeros(1))), RolloutBatchProtocol) == [("rew", "TB302")]


def test_a_row_and_an_empty_batch_are_no_batch_of_rows():
    assert {code for _, code in paths(Batch(fields())[0], RolloutBatchProtocol)} == {"TB301"}
    assert {code for _, code in paths(Batch(), RolloutBatchProtocol)} == {"TB101"}
    assert paths(Batch(fields(obs=Batch())), RolloutBatchProtocol) == [("obs", "TB103")]


def test_subclasses_of_arrays_and_tensors_are_arrays_and_tensors(tmp_path: Any):
    class MyTensor(Tensor): ...

    mapped = np.memmap(tmp_path / "m", mode="w+", shape=(3,), dtype=float)
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    batch = Batch(a=mapped, b=masked, c=torch.nn.Parameter(torch.zeros(3)), d=torch.zeros(3).as_subclass(MyTensor))
    schema = record(a=Array, b=np.ma.MaskedArray, c=Tensor, d=Tensor | None)
    assert validate(batch, schema).a is mapped
    assert paths(Batch(batch, b=torch.zeros(3)), schema) == [("b", "TB202")]


def test_a_distribution_class_is_asked_for_by_name():
    error = refused(Batch(dist=Normal(torch.zeros(2), 1.0)), record(dist=Categorical))
    assert str(error.problems[0]) == "batch.dist  Normal[2], expected a Categorical  [TB202 wrong-kind]"


def test_a_hundred_levels():
    deep = Batch(x=np.zeros(N))
    for _ in range(99):
        deep = Batch(x=np.zeros(N), inner=deep)
    batch = Batch(act=np.zeros(N), state=deep)
    assert conforms(batch, ActStateBatch)
    assert convert(batch, ActStateBatch[Tensor]).act.shape == (N,)


def test_a_report_on_many_conflicting_fields_can_be_read():
    schema = record(**{f"f{i}": Array for i in range(400)})
    one = refused(Batch({f"f{i}": np.zeros(2 if i else 3) for i in range(400)}), schema)
    assert [problem.path for problem in one.problems] == ["f0"]
    assert len(str(one)) < 2_000  # "2 in f1, f2, f3 and 396 more"
    tie = refused(Batch({f"f{i}": np.zeros(2 + i % 2) for i in range(400)}), schema)
    assert len(str(tie)) < 100_000


def raw(**values: Any) -> Batch:
    """A batch with just these values, which the constructor would refuse or convert."""
    batch = Batch()
    batch.__dict__.update(values)
    return batch


class RaisesShape(np.ndarray):
    @property
    def shape(self) -> Any:
        raise ValueError("no shape today")


class RaisesDtype(np.ndarray):
    @property
    def dtype(self) -> Any:
        raise KeyError("dtype")


class Recurses(np.ndarray):
    @property
    def shape(self) -> Any:
        return self.shape


class ShapeOfWords(np.ndarray):
    @property
    def shape(self) -> Any:
        return ("six", None)


class LiesAboutLength(np.ndarray):
    def __len__(self) -> int:
        return 10**9


class RaisesAlways:
    def __getattribute__(self, name: str) -> Any:
        raise AttributeError(name)

    def __eq__(self, other: object) -> bool:
        raise TypeError

    __hash__ = None  # type: ignore[assignment]


class SaysItIsAnArray:
    __class__ = np.ndarray  # type: ignore[assignment]


class NoDistribution(Normal):
    @property
    def batch_shape(self) -> Any:
        raise ZeroDivisionError


def leaves() -> dict[str, Any]:
    return {
        "shape raises": np.zeros(6).view(RaisesShape), "dtype raises": np.zeros(6).view(RaisesDtype),
        "shape recurses": np.zeros(6).view(Recurses), "shape of words": np.zeros(6).view(ShapeOfWords),
        "length lies": np.zeros(5).view(LiesAboutLength), "tensor refuses": torch.zeros(6).as_subclass(Refuses),
        "raises always": RaisesAlways(), "says it is an array": SaysItIsAnArray(), "mock": Mock(spec=np.ndarray),
        "magic mock": MagicMock(spec=Tensor, shape=(6,), dtype=torch.float32),
        "distribution": NoDistribution(torch.zeros(6), 1.0), "meta tensor": torch.zeros(6, device="meta"),
        "sparse": torch.zeros(6, 6).to_sparse(), "generator": (i for i in range(3)), "class": np.ndarray,
        "nan": float("nan"), "dict": {"a": {}}, "list": [[1], 2], "masked": np.ma.masked_array([1.0] * 6, mask=True),
        "record array": np.zeros(6, [("a", "f4")]).view(np.recarray), "zero size": np.zeros((6, 0, 3)),
        "huge": np.broadcast_to(np.zeros(1), (2**30, 2**20)), "row": np.float64(3), "bytes": b"123456",
    }  # fmt: skip


FIELDS = ["obs", "act", "rew", "info", "extra"]


class Strict(BatchRecord):
    obs: Float[np.ndarray, "N *obs"] | Float[Tensor, "N *obs"]
    act: Shaped[np.ndarray, "N"]
    rew: Array | None
    info: Batch | Array
    extra: Any


def strict(**changes: Any) -> Batch:
    base = {"obs": np.zeros((6, 2)), "act": np.zeros(6), "rew": None, "info": Batch(t=np.zeros(6)), "extra": 1}
    return raw(**{**base, **changes})


def judged(batch: Batch, schema: Any) -> list[str]:
    """The codes of the problems. Whatever comes, it is a report; and the batch stays as it was."""
    before = dict(batch.__dict__)
    answer = conforms(batch, schema)
    error = raised(batch, schema, "structure")
    assert answer == (error is None)
    codes = [] if error is None else [problem.code[:5] for problem in error.problems]
    for one in (error, raised(batch, schema, "values")):
        assert one is None or (one.problems and len(str(one)) < 5_000_000)
    assert list(batch.__dict__) == list(before)
    assert all(batch.__dict__[name] is value for name, value in before.items())
    return codes


def raised(batch: Batch, schema: Any, level: Any) -> SchemaError | None:
    try:
        validate(batch, schema, level=level)
    except SchemaError as error:
        return error
    return None


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", leaves())
def test_a_hostile_leaf(name: str, field: str):
    judged(strict(**{field: leaves()[name]}), Strict)
    judged(strict(info=raw(inner=raw(x=leaves()[name]))), Strict)
    judged(raw(**{**fields(), field: leaves()[name]}), RolloutBatchProtocol)


@given(st.lists(st.tuples(st.sampled_from(FIELDS), st.sampled_from(list(leaves()))), max_size=5))
def test_several_hostile_leaves_at_once(chosen: list[tuple[str, str]]):
    judged(strict(**{field: leaves()[name] for field, name in chosen}), Strict)


def test_what_a_raising_property_is_called():
    assert judged(strict(act=leaves()["shape raises"]), Strict) == ["TB105"]
    assert judged(strict(act=leaves()["dtype raises"]), record(act=Float[np.ndarray, "N"])) == ["TB105"]
    assert judged(strict(act=leaves()["length lies"]), Strict) == ["TB105"]
    assert judged(strict(act=leaves()["says it is an array"]), Strict) == ["TB202"]


def endless() -> Batch:
    batch = Batch(fields())
    batch["info"] = Batch(a=np.zeros(6), b=Batch(c=batch))
    return batch


class NegativeLength(np.ndarray):
    def __len__(self) -> int:
        return -1


class EndlessLength(np.ndarray):
    def __len__(self) -> int:
        return 2**70


class TensorLength(Tensor):
    def __len__(self) -> int:
        return 7


class SizedObject:
    def __len__(self) -> int:
        return -1


@pytest.mark.parametrize(
    "leaf",
    [
        np.zeros(6).view(NegativeLength),
        np.zeros(6).view(EndlessLength),
        np.zeros(6).view(LiesAboutLength),
        torch.zeros(6).as_subclass(TensorLength),
    ],
    ids=lambda leaf: type(leaf).__name__,
)
def test_a_length_that_lies(leaf: Any):
    column = record(x=np.ndarray | Tensor)
    assert judged(raw(x=leaf), column) == ["TB105"]
    assert judged(raw(x=raw(y=leaf)), record(x=Batch)) == ["TB105"]
    assert judged(raw(x=leaf), record(x=Any)) == ["TB105"]
    assert judged(raw(x=leaf), record(x=Sized)) == ["TB105"]
    assert judged(raw(x=raw(y=leaf)), record(x=dict[str, np.ndarray | Tensor])) == ["TB105"]


def test_an_object_that_is_declared_to_have_a_length():
    assert judged(raw(x=SizedObject()), record(x=Sized)) == ["TB105"]
    assert judged(raw(x="text"), record(x=Sized)) == []
    assert judged(raw(x=np.zeros(0)), record(x=Collection[float])) == []


def test_subclasses_that_say_what_is_so():
    for leaf in (np.ma.masked_array([1.0], mask=[True]), np.zeros(1, [("a", "f4")]).view(np.recarray)):
        assert judged(raw(x=leaf), record(x=np.ndarray)) == []
    assert judged(raw(x=torch.nn.Parameter(torch.zeros(1))), record(x=Tensor)) == []


def test_a_dtype_that_lies_convinces_nobody_and_is_not_remembered():
    class Equal:
        def __init__(self, other: Any) -> None:
            self.other = other

        def __eq__(self, other: object) -> bool:
            return bool(self.other == other)

        def __hash__(self) -> int:
            return hash(self.other)

        def __str__(self) -> str:
            return "float32"

    def lying(base: Any, other: Any) -> Any:
        return type("Lying", (base,), {"dtype": property(lambda self: Equal(other))})

    for annotation in (Float32[np.ndarray, "N"], Float32[Tensor, "N"]):
        is_array = annotation.array_type is np.ndarray
        wide: Any = np.zeros(6) if is_array else torch.zeros(6, dtype=torch.float64)
        base = np.ndarray if is_array else Tensor
        cls = lying(base, wide.dtype)
        leaf = wide.view(cls) if is_array else wide.as_subclass(cls)
        schema = record(x=annotation)
        before = raised(raw(x=wide), schema, "structure")
        assert judged(raw(x=leaf), schema) == ["TB105"]
        assert judged(raw(x=wide), schema) == ["TB201"]
        assert str(before).splitlines()[-3:] == str(raised(raw(x=wide), schema, "structure")).splitlines()[-3:]


def test_cycles():
    assert judged(endless(), RolloutBatchProtocol) == ["TB104"]
    own = Batch(value=np.zeros(2))
    own["child"] = own
    assert judged(own, Tree) == ["TB104"]
    assert judged(own, record(value=Array, child=Any)) == ["TB104"]
    assert judged(own, record(value=Array, child=dict[str, Array])) == ["TB202"]
    two = Batch(value=np.zeros(2), child=Batch(value=np.zeros(2), child=own))
    assert judged(two, Tree) == ["TB104"]


def tower(levels: int, last: Batch) -> Batch:
    for _ in range(levels):
        last = raw(value=np.zeros(2), child=last)
    return last


class Leaf(BatchRecord):
    end: Array


class Node(BatchRecord):
    value: Array
    child: Node | Leaf


def test_batches_within_a_hundred_others_are_judged_and_deeper_ones_refused():
    for levels, deep in ((100, []), (101, ["TB104"])):
        assert judged(tower(levels, raw(value=np.zeros(2), child=None)), Tree) == deep
        assert judged(raw(info=tower(levels - 1, Batch())), record(info=Batch)) == deep
        assert judged(raw(info=tower(levels - 1, raw(value=np.zeros(2)))), record(info=Any)) == deep
        named = record(info=dict[str, dict[str, Batch]])
        assert judged(raw(info=raw(a=raw(b=tower(levels - 3, Batch())))), named) == deep
        assert judged(tower(levels, raw(end=np.zeros(2))), Node) == ([] if not deep else ["TB104"])
    assert judged(tower(100, raw(value=np.zeros(3), child=None)), Tree) == ["TB302"]
    assert judged(tower(100, raw(value=np.zeros(2), child=5)), Tree) == ["TB202"]
    assert judged(raw(info=tower(99, raw(value=np.zeros(1)))), record(info=Batch)) == ["TB302"]
    assert judged(tower(90, raw(ende=np.zeros(2))), Node) == ["TB101"]


def test_fields_that_nobody_declares_may_be_of_any_depth():
    batch = Batch(value=np.zeros(2), more=tower(200, Batch()))
    batch["me"] = batch
    assert judged(batch, record(value=Array)) == []


def test_one_batch_in_many_places():
    batch = Batch(value=np.zeros(2))
    for _ in range(8):
        batch = raw(value=np.zeros(2), left=batch, right=batch)

    class Both(BatchRecord):
        value: Array
        left: Both | None = None
        right: Both | None = None

    schema = record(both=Batch)
    assert judged(raw(both=batch), schema) == []
    assert judged(raw(both=raw(one=batch, two=np.zeros(3))), schema) == ["TB302"]
    assert judged(raw(both=batch, act=5), record(both=Batch, act=Array)) == ["TB202"]
    for one in (Both, record(x=Any)):
        assert judged(raw(x=batch, **batch.__dict__), one) == []
    own = Batch(value=np.zeros(2))
    own["left"] = own["right"] = own
    assert judged(own, Both)[:1] == ["TB104"]
    assert judged(raw(both=own), schema)[:1] == ["TB104"]


def test_ten_thousand_fields_that_are_all_wrong():
    schema = record(**{f"field_{i}": Array for i in range(10_000)})
    assert len(judged(Batch({f"feld_{i}": np.zeros(2) for i in range(10_000)}), schema)) == 10_000
    assert judged(Batch({f"field_{i}": np.zeros(2 + (i == 7)) for i in range(10_000)}), schema) == ["TB302"]


@pytest.mark.parametrize("name", ["a\nb", "a.b", "", "[0]", "x'y\"", "rew ", "é", "\x1b[31m", "shape", "__class__"])
def test_any_name(name: str):
    schema = record(inner=record(**{name: Array})) if name not in ("shape", "__class__") else record(inner=Batch)
    text = str(raised(raw(inner=raw(**{name: 5})), schema, None))
    assert "\x1b" not in text
    assert text.count("\n") <= 8


def test_a_batch_that_another_thread_writes_to():
    batch, stop = Batch(fields(), info=Batch()), threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            batch["info"] = Batch({f"k{n % 7}": np.zeros(6)})
            batch[f"extra{n % 5}"] = np.zeros(6)
            batch.pop(f"extra{(n + 2) % 5}", None)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(300):
            conforms(batch, RolloutBatch)
            assert "TB202" in str(raised(batch, RolloutBatch[Tensor], None))
    finally:
        stop.set()
        thread.join()


class Aa(BatchRecord):
    child: Aa | Bb | None
    a: Array


class Bb(BatchRecord):
    child: Aa | Bb | None
    b: Array


@pytest.mark.parametrize("levels", [30, 100])
def test_alternatives_that_only_differ_behind_the_nested_batch(levels: int):
    def chain(last: int) -> Batch:
        batch = raw(child=None, b=np.zeros(last))
        for _ in range(levels):
            batch = raw(child=batch, b=np.zeros(3))
        return batch

    assert judged(chain(3), Bb) == []
    assert judged(chain(4), Bb) == ["TB302"]


def test_what_is_handed_over_in_place_of_a_batch():
    for leaf in leaves().values():
        assert not conforms(leaf, RolloutBatch)
        error = raised(leaf, RolloutBatch, None)
        assert error is not None
        assert error.problems[0].code[:5] in ("TB102", "TB105")


def test_a_report_on_fields_that_all_differ_can_be_read():
    schema = record(**{f"f{i}": Array for i in range(2_000)})
    error = raised(Batch({f"f{i}": np.zeros(i + 1) for i in range(2_000)}), schema, None)
    assert len(str(error)) < 20_000
    assert error is not None
    assert len(str(error.to_dict())) < 1_000_000


def test_a_name_cannot_forge_a_line_of_the_report():
    batch = Batch({"bad\n  batch.x  fine": np.zeros(3), "x": np.zeros(4), "\ud800": np.zeros(4), "y": np.zeros(4)})
    text = str(raised(batch, record(x=Array, more=Batch, **{"bad\n  batch.x  fine": Array}), None))
    assert "\n  batch.x  fine" not in text
    assert text.encode()
