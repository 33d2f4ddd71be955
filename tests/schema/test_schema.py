"""A schema as data: what can be read from it, that it stays as it is, and whether its records have rows."""

from __future__ import annotations

import dataclasses
import inspect
import threading
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
import torch
from annotated_types import Ge
from jaxtyping import Float, Float32, Int
from numpy.typing import NDArray
from torch import Tensor

from tests.validation.helpers import Array, Cam, record
from typedbatch import (
    Batch,
    BatchRecord,
    Finite,
    Ragged,
    RolloutBatch,
    RolloutBatchProtocol,
    cat,
    conforms,
    rule,
    schema_of,
)
from typedbatch._core.kinds import ARRAY, BATCH, NONE, TENSOR
from typedbatch.errors import RowIndexError
from typedbatch.rows import chunk, repeat
from typedbatch.schema.fields import Schema


class Pixels(BatchRecord):
    cam: Float32[np.ndarray, "N 3 *size"]
    speed: Annotated[Float[np.ndarray, "N"], Ge(0), Finite] | None = None
    mode: Literal["day", "night"]
    extra: dict[str, NDArray[np.integer]]

    @rule("nothing is faster than light")
    def slow(self) -> bool:
        return True


def test_fields_and_what_they_take():
    schema = schema_of(Pixels)
    assert [field.name for field in schema] == ["cam", "speed", "mode", "extra"]
    cam, speed = schema["cam"], schema["speed"]
    assert cam.options[0].kind is ARRAY
    assert cam.options[0].dtypes is not None
    assert cam.options[0].dtypes.words == "float32"
    assert [dim.text for dim in cam.options[0].shape.dims] == ["N", "3", "size"]
    assert cam.kinds == {ARRAY}
    assert speed.kinds == {ARRAY, NONE}
    assert speed.optional
    assert [one.words for one in speed.options[0].rules] == [">= 0", "finite"]
    assert schema["mode"].options[0].choices == ("day", "night")
    assert schema["extra"].options[0].kind is BATCH
    assert schema["extra"].options[0].each is not None
    assert [one.name for one in schema.rules] == ["slow"]
    assert len(schema) == 4
    with pytest.raises(KeyError):
        schema["speeed"]


def test_it_shows_what_it_asks_for():
    assert repr(schema_of(Pixels)) == REPR
    assert repr(schema_of(Batch)) == "Schema(Batch)"


REPR = """\
Schema(Pixels
    cam: a numpy array of float32, shape (N, 3, *size),
    speed?: a numpy array of floating type, shape (N,) or None,
    mode: one of 'day', 'night',
    extra: a Batch of a numpy array of integer type each,
)"""


def test_where_it_is_declared():
    schema = schema_of(Pixels)
    line = Path(__file__).read_text().splitlines().index("class Pixels(BatchRecord):") + 1
    assert schema.place == schema["cam"].place == f"tests/schema/test_schema.py:{line}"
    assert schema["cam"].declared_in == "tests.schema.test_schema.Pixels"
    rew = schema_of(RolloutBatchProtocol)["rew"]
    source = Path(inspect.getfile(RolloutBatchProtocol)).read_text().splitlines()
    assert "def rew" in source[int(rew.place.rpartition(":")[2]) - 1]


def test_parameters_make_schemas_of_their_own():
    one, two = schema_of(RolloutBatchProtocol[Tensor, Cam]), schema_of(RolloutBatchProtocol)
    assert one.name == "RolloutBatchProtocol[Tensor, Cam]"
    assert one["obs"].nested[0] is schema_of(Cam)
    assert one["act"].kinds == {TENSOR}
    assert two["act"].kinds == {ARRAY}
    assert schema_of(RolloutBatchProtocol[Tensor, Cam]) is one
    assert schema_of(RolloutBatch).target is RolloutBatch


def test_it_cannot_be_changed():
    schema = schema_of(Pixels)
    for change in ("name", "fields", "rules", "anything"):
        with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
            setattr(schema, change, ())
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        schema["cam"].name = "camera"  # type: ignore[misc]
    with pytest.raises((dataclasses.FrozenInstanceError, AttributeError, TypeError)):
        schema["cam"].options[0].kind = TENSOR  # type: ignore[misc]


def test_many_threads_get_one_schema():
    for _ in range(20):
        fresh = record(inner=record(x=Int[np.ndarray, "N"]), y=Array)
        batch = Batch(inner=Batch(x=[1, 2]), y=[1.0, 2.0])
        start = threading.Barrier(8)
        seen: list[tuple[Schema, bool, Any]] = []

        def ask(fresh: Any = fresh, batch: Any = batch, start: Any = start, seen: Any = seen) -> None:
            start.wait()
            answer = conforms(batch, fresh)
            seen.append((schema_of(fresh), answer, schema_of(fresh)["inner"].nested[0].fields))

        threads = [threading.Thread(target=ask) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id(schema) for schema, _, _ in seen}) == 1
        assert all(answer and len(fields) == 1 for _, answer, fields in seen)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8, bool, object, "U4", "M8[s]", ">f4"])
def test_numpys_own_annotations_mean_what_numpy_says(dtype: Any):
    array = np.zeros(3, dtype)
    for scalar in (np.float32, np.float64, np.floating, np.integer, np.signedinteger, np.number, np.generic, np.bool_):
        expected = np.issubdtype(array.dtype, scalar)
        assert conforms(Batch(x=array), record(x=NDArray[scalar])) == expected, scalar  # type: ignore[valid-type]


def test_a_tensor_is_no_array_whatever_its_dtype():
    assert not conforms(Batch(x=torch.zeros(3)), record(x=NDArray[np.float32]))


class Packed(BatchRecord):
    input_ids: Int[np.ndarray, "tokens"]
    cu_seqlens: Int[np.ndarray, "seqs+1"]
    reward: Float[np.ndarray, "seqs"]


class LayersFirst(BatchRecord):
    obs: Float[np.ndarray, "N 4"]
    hidden: Float[np.ndarray, "layers N units"]


class Outer(BatchRecord):
    uid: Int[np.ndarray, "N"]
    tokens: Tokens  # declared further down, so read at the first use


class Tokens(BatchRecord):
    ids: Int[np.ndarray, "T"]


class AllOfT(BatchRecord):
    ids: Int[np.ndarray, "T"]
    emb: Float[np.ndarray, "T D"]
    rest: Float[np.ndarray, "..."] | None = None


class Broad(BatchRecord):
    obs: np.ndarray
    one: Float[np.ndarray, "#N"]
    sequences: Ragged[Tokens]


def packed() -> Packed:
    return Packed(input_ids=np.arange(6), cu_seqlens=np.array([0, 2, 6]), reward=np.zeros(2))


OPERATIONS: list[Any] = [
    lambda batch: batch[0], lambda batch: batch[:2], lambda batch: batch[[1, 0]],
    lambda batch: batch[np.array([True, False])], lambda batch: batch[...], lambda batch: next(iter(batch)),
    lambda batch: next(batch.split(1)), lambda batch: next(batch.split(1, shuffle=False)),
    lambda batch: Batch(inner=batch)[:1], lambda batch: cat([batch, batch]), lambda batch: repeat(batch, 2),
    lambda batch: chunk(batch, 2),
]  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS)
def test_rows_that_do_not_belong_together_are_refused(operation: Any) -> None:
    with pytest.raises(RowIndexError, match=r"cu_seqlens': .*'seqs\+1', and that of input_ids as 'tokens'.*Ragged"):
        operation(packed())
    with pytest.raises(RowIndexError, match="hidden': LayersFirst declares its first dimension as 'layers'"):
        operation(LayersFirst(obs=np.zeros((2, 4)), hidden=np.zeros((1, 2, 3))))
    for _ in range(2):
        with pytest.raises(RowIndexError, match=r"tokens\.ids': Outer declares its first dimension as 'T'"):
            operation(Outer(uid=np.arange(2), tokens=Tokens(ids=np.arange(5))))


def test_fields_can_still_be_worked_on():
    batch = packed()
    assert batch == batch.copy()
    assert (batch + 0) == batch
    assert Batch(batch)[:1].input_ids.tolist() == [0]  # a plain Batch declares nothing


@pytest.mark.parametrize("operation", OPERATIONS)
def test_rows_by_any_one_name_are_taken(operation: Any) -> None:
    batch = AllOfT(ids=np.arange(2), emb=np.zeros((2, 3)), rest=np.zeros((2, 1)))
    assert operation(batch) is not None
    broad = Broad(obs=np.zeros((2, 3)), one=np.zeros(2), sequences=Ragged(Tokens(ids=np.arange(3)), [1, 2]))
    assert operation(broad) is not None
