"""Batches, records and modules that the tests of the gate share."""

from __future__ import annotations

import itertools
import sys
import types
from typing import Annotated, Any, Generic, Optional, Protocol, TypeVar

import numpy as np
import pytest
import typing_extensions
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import ActBatch, Batch, BatchProtocol, BatchRecord, RolloutBatch, SchemaError, checked, validate
from typedbatch.schema import schema_of

N = 6
Array = NDArray[Any]
T = TypeVar("T")
Stage = typing_extensions.TypeVar("Stage", default=Array)
ids = itertools.count()
newer = pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
newest = pytest.mark.skipif(sys.version_info < (3, 13), reason="syntax of Python 3.13")


def fields(rows: int = N, **changes: Any) -> dict[str, Any]:
    base = {
        "obs": np.zeros((rows, 4), np.float32), "obs_next": np.zeros((rows, 4), np.float32),
        "act": np.zeros(rows, np.int64), "rew": np.zeros(rows), "terminated": np.zeros(rows, bool),
        "truncated": np.zeros(rows, bool), "info": Batch(),
    }  # fmt: skip
    return {name: value for name, value in {**base, **changes}.items() if value is not ...}


def nested(rows: int = N, **changes: Any) -> dict[str, Any]:
    """Fields of a rollout whose observations are a batch with a camera."""
    return fields(rows, obs=Batch(cam=np.zeros(rows)), obs_next=Batch(cam=np.zeros(rows)), **changes)


def record(*bases: Any, **hints: Any) -> Any:
    """A record whose annotations are objects, as in a file without string annotations."""
    return types.new_class("Local", bases or (BatchRecord,), {}, lambda body: body.update(__annotations__=hints))


def load(source: str, *, strings: bool) -> types.SimpleNamespace:
    """The names of a module with this source, with string annotations or without."""
    module = types.ModuleType(f"typedbatch_test_module_{next(ids)}")
    sys.modules[module.__name__] = module
    offered = (Annotated, Any, Batch, BatchProtocol, BatchRecord, Generic, Protocol, RolloutBatch, checked, ActBatch)
    vars(module).update({getattr(one, "__name__", ""): one for one in offered}, Any=Any, Array=Array)
    flags = annotations.compiler_flag if strings else 0
    exec(compile(source, module.__name__, "exec", flags, dont_inherit=True), vars(module))
    return types.SimpleNamespace(**vars(module))


def kinds(schema: Any) -> dict[str, set[str] | None]:
    return {field.name: field.kinds and {kind.name for kind in field.kinds} for field in schema_of(schema).fields}


def refused(batch: object, schema: Any) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        validate(batch, schema)
    return caught.value


def paths(batch: object, schema: Any) -> list[tuple[str, str]]:
    return [(problem.path, problem.code.split()[0]) for problem in refused(batch, schema).problems]


class Cam(BatchRecord):
    cam: Array


class CamPos(BatchRecord):
    cam: Array
    pos: Array

    def both(self) -> Any:
        return self.cam + self.pos


class StagedCam(BatchRecord, Generic[T]):
    cam: T


class DefaultCam(BatchRecord, Generic[Stage]):
    cam: Stage


class TensorCam(BatchRecord):
    cam: Tensor


class Tree(BatchRecord):
    value: Array
    child: Optional["Tree"]  # noqa: UP045  # so that a file without string annotations has a ForwardRef here


class Refuses(Tensor):
    """A tensor that raises whatever is asked of it."""

    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("hands off")
