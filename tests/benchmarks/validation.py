"""Costs of checking a batch, beside ``if`` statements that check the same by hand, and beside other libraries.

A rollout of 256 rows: obs and obs_next float32 (N, 4), act int64 (N,), rew float64 (N,), terminated and truncated bool
(N,); for numpy also info, an object array (N,). Every contender says yes to it. Which of three mistakes each finds is
counted: rew missing, act of dtype float32, obs one row short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import beartype
import numpy as np
import pandera.tensordict as pandera
import pydantic
import torch
from jaxtyping import Bool, Float32, Float64, Int64, Shaped, jaxtyped
from tensordict import TensorClass, TensorDict
from torch import Tensor
from typing_extensions import TypedDict

from typedbatch import Batch, BatchRecord, SchemaError, checked, conforms, schema_of, validate
from typedbatch.schema.generate import check_of

from .floors import Fields
from .timing import Ratio, beside

ROWS = 256
BAR = 1.2
FAILURE_BAR = 60.0
Call = Callable[[], Any]


class ArrayRollout(BatchRecord):
    obs: Float32[np.ndarray, "N 4"]
    obs_next: Float32[np.ndarray, "N 4"]
    act: Int64[np.ndarray, "N"]
    rew: Float64[np.ndarray, "N"]
    terminated: Bool[np.ndarray, "N"]
    truncated: Bool[np.ndarray, "N"]
    info: np.ndarray[tuple[int], np.dtype[np.object_]]


class TensorRollout(BatchRecord):
    obs: Float32[Tensor, "N 4"]
    obs_next: Float32[Tensor, "N 4"]
    act: Int64[Tensor, "N"]
    rew: Float64[Tensor, "N"]
    terminated: Bool[Tensor, "N"]
    truncated: Bool[Tensor, "N"]


@checked
class CheckedArrays(ArrayRollout): ...


@checked
class CheckedTensors(TensorRollout): ...


class PeerRollout(TensorClass):
    obs: Tensor
    obs_next: Tensor
    act: Tensor
    rew: Tensor
    terminated: Tensor
    truncated: Tensor


def fields(torch_: bool, rows: int = ROWS) -> Fields:
    out: Fields = {
        "obs": np.zeros((rows, 4), np.float32), "obs_next": np.zeros((rows, 4), np.float32),
        "act": np.zeros(rows, np.int64), "rew": np.zeros(rows), "terminated": np.zeros(rows, bool),
        "truncated": np.zeros(rows, bool),
    }  # fmt: skip
    if torch_:
        return {name: torch.from_numpy(value) for name, value in out.items()}
    return {**out, "info": np.full(rows, None, object)}


def mistakes(good: Fields) -> dict[str, Fields]:
    to_float = (lambda v: v.float()) if isinstance(good["act"], Tensor) else (lambda v: v.astype(np.float32))
    return {
        "missing": {name: value for name, value in good.items() if name != "rew"},
        "dtype": {**good, "act": to_float(good["act"])},
        "rows": {**good, "obs": good["obs"][:-1]},
    }


DTYPES = [np.dtype(name) for name in ("float32", "float64", "int64", "bool", "object")]


def floor_numpy(d: Fields) -> bool:
    """As a good engineer writes it: the same seven fields, the same questions."""
    f32, f64, i64, truth, thing = DTYPES  # to compare with np.float32 itself would be half as fast
    try:
        obs, obs_next, act, rew = d["obs"], d["obs_next"], d["act"], d["rew"]
        terminated, truncated, info = d["terminated"], d["truncated"], d["info"]
    except KeyError:
        return False
    if not isinstance(obs, np.ndarray) or obs.dtype != f32 or obs.ndim != 2 or obs.shape[1] != 4:
        return False
    n = obs.shape[0]
    if not isinstance(obs_next, np.ndarray) or obs_next.dtype != f32 or obs_next.shape != (n, 4):
        return False
    if not isinstance(act, np.ndarray) or act.dtype != i64 or act.shape != (n,):
        return False
    if not isinstance(rew, np.ndarray) or rew.dtype != f64 or rew.shape != (n,):
        return False
    if not isinstance(terminated, np.ndarray) or terminated.dtype != truth or terminated.shape != (n,):
        return False
    if not isinstance(truncated, np.ndarray) or truncated.dtype != truth or truncated.shape != (n,):
        return False
    return isinstance(info, np.ndarray) and info.dtype == thing and info.shape == (n,)


def floor_torch(d: Fields) -> bool:
    f32, f64, i64, truth = torch.float32, torch.float64, torch.int64, torch.bool
    try:
        obs, obs_next, act, rew = d["obs"], d["obs_next"], d["act"], d["rew"]
        terminated, truncated = d["terminated"], d["truncated"]
    except KeyError:
        return False
    if not isinstance(obs, Tensor) or obs.dtype != f32 or obs.ndim != 2 or obs.shape[1] != 4:
        return False
    n = obs.shape[0]
    if not isinstance(obs_next, Tensor) or obs_next.dtype != f32 or obs_next.shape != (n, 4):
        return False
    if not isinstance(act, Tensor) or act.dtype != i64 or act.shape != (n,):
        return False
    if not isinstance(rew, Tensor) or rew.dtype != f64 or rew.shape != (n,):
        return False
    if not isinstance(terminated, Tensor) or terminated.dtype != truth or terminated.shape != (n,):
        return False
    return isinstance(truncated, Tensor) and truncated.dtype == truth and truncated.shape == (n,)


@checked
def take_arrays(batch: ArrayRollout) -> None: ...


@checked
def take_tensors(batch: TensorRollout) -> None: ...


def _jaxtyped(array: Any, object_too: bool) -> Callable[..., None]:
    """A function of the fields, checked by jaxtyping and beartype; a return annotation would cost as much again."""

    def take(obs: Any, obs_next: Any, act: Any, rew: Any, terminated: Any, truncated: Any, info: Any = None):  # type: ignore[no-untyped-def]
        return None

    take.__annotations__ = {
        "obs": Float32[array, "n 4"], "obs_next": Float32[array, "n 4"], "act": Int64[array, "n"],
        "rew": Float64[array, "n"], "terminated": Bool[array, "n"], "truncated": Bool[array, "n"],
        **({"info": Shaped[array, "n"]} if object_too else {}),
    }  # fmt: skip
    return jaxtyped(typechecker=beartype.beartype)(take)


def _pydantic(array: Any, wanted: dict[str, tuple[Any, int, int | None]]) -> Any:
    """A TypedDict adapter, the fastest form: dtype and rank in a validator per field, rows in one for all."""

    def of(dtype: Any, ndim: int, last: int | None) -> Any:
        def check(value: Any) -> Any:
            if value.dtype != dtype or value.ndim != ndim or (last is not None and value.shape[1] != last):
                raise ValueError(f"expected {dtype}, {ndim} dimensions")
            return value

        return Annotated[array, pydantic.AfterValidator(check)]

    def same_rows(value: Any) -> Any:
        n = value["obs"].shape[0]
        for one in value.values():
            if one.shape[0] != n:
                raise ValueError("rows differ")
        return value

    config = pydantic.ConfigDict(arbitrary_types_allowed=True)
    model: Any = TypedDict("Rollout", {name: of(*spec) for name, spec in wanted.items()})  # type: ignore[misc]
    model.__pydantic_config__ = config
    return Annotated[model, pydantic.AfterValidator(same_rows)]


def _pydantic_call(model: Any) -> Callable[[Any], Any]:
    def take(batch: Any) -> None: ...

    take.__annotations__ = {"batch": model}
    return pydantic.validate_call(take)


def _pandera() -> Callable[[Any], Any]:
    one = {"obs": torch.float32, "obs_next": torch.float32}
    rest = {"act": torch.int64, "rew": torch.float64, "terminated": torch.bool, "truncated": torch.bool}
    keys: dict[Any, Any] = {name: pandera.Tensor(dtype, shape=(None, 4)) for name, dtype in one.items()}
    keys |= {name: pandera.Tensor(dtype, shape=(None,)) for name, dtype in rest.items()}
    schema = pandera.TensorDictSchema(keys, batch_size=(None,))
    return lambda td: schema.validate(td, inplace=True)


@dataclass
class Contender:
    """A way to check; ``prepare`` makes what is checked, which is not timed, ``check`` is."""

    name: str
    prepare: Callable[[Fields], Any]
    check: Callable[[Any], Any]
    bar: float | None = None
    ratio: Ratio | None = None
    finds: list[str] = field(default_factory=list)

    def says_no(self, d: Fields) -> bool:
        try:
            return self.check(self.prepare(d)) is False
        except Exception:  # noqa: BLE001  # each library has its own way to say no
            return True


@dataclass
class Validation:
    """One table: the floor in seconds, the contenders, and what a failure costs."""

    name: str
    floor: float
    contenders: list[Contender]
    failure: Ratio | None = None
    failure_and_text: Ratio | None = None
    many_rows: Ratio | None = None


def contenders(torch_: bool) -> list[Contender]:
    record: Any = TensorRollout if torch_ else ArrayRollout
    array: Any = Tensor if torch_ else np.ndarray
    f32, f64, i64, truth = (torch.float32, torch.float64, torch.int64, torch.bool) if torch_ else DTYPES[:4]
    wanted: dict[str, tuple[Any, int, int | None]] = {
        "obs": (f32, 2, 4), "obs_next": (f32, 2, 4), "act": (i64, 1, None), "rew": (f64, 1, None),
        "terminated": (truth, 1, None), "truncated": (truth, 1, None),
    }  # fmt: skip
    wanted |= {} if torch_ else {"info": (np.dtype(object), 1, None)}
    own_constructor: Any = CheckedTensors if torch_ else CheckedArrays
    jaxtyping_, model = _jaxtyped(array, not torch_), _pydantic(array, wanted)
    own = [
        Contender("generated check", Batch, check_of(schema_of(record)), BAR),
        Contender("conforms()", Batch, lambda batch: conforms(batch, record)),
        Contender("validate()", Batch, lambda batch: validate(batch, record)),
        Contender("@checked call", Batch, take_tensors if torch_ else take_arrays),
        Contender("record, construct", dict, lambda d: record(**d)),
        Contender("@checked record, construct", dict, lambda d: own_constructor(**d)),
    ]
    peers = [
        Contender("pydantic, TypedDict", dict, pydantic.TypeAdapter(model).validate_python),
        Contender("pydantic, validate_call", dict, _pydantic_call(model)),
        Contender("jaxtyping + beartype", dict, lambda d: jaxtyping_(**d)),
    ]
    if torch_:
        peers.append(Contender("TensorClass, construct", dict, lambda d: PeerRollout(**d, batch_size=[ROWS])))
        peers.append(Contender("pandera.tensordict", lambda d: TensorDict(d, batch_size=[ROWS]), _pandera()))
    return own + peers


def measure_validation(torch_: bool) -> Validation:
    good = fields(torch_)
    floor_check = floor_torch if torch_ else floor_numpy
    assert floor_check(good)
    rows = contenders(torch_)
    for row in rows:
        assert not row.says_no(good), row.name
        row.finds = [name for name, bad in mistakes(good).items() if row.says_no(bad)]
    record: Any = TensorRollout if torch_ else ArrayRollout
    check, large = check_of(schema_of(record)), Batch(fields(torch_, rows=1_000 * ROWS))
    broken = Batch({**mistakes(good)["dtype"], "obs": good["obs"][:-1], "reward": good["rew"]})
    del broken["rew"]

    def fail() -> SchemaError:
        try:
            validate(broken, record)
        except SchemaError as error:
            return error
        raise AssertionError

    assert len(fail().problems) == 3
    calls: dict[str, Call] = {row.name: _bound(row.check, row.prepare(good)) for row in rows}
    calls |= {"failure": fail, "failure and text": lambda: str(fail()), "many rows": lambda: check(large)}
    floor, ratios = beside(lambda: floor_check(good), calls)
    for row in rows:
        row.ratio = ratios[row.name]
    name = "tensors" if torch_ else "arrays"
    return Validation(name, floor, rows, ratios["failure"], ratios["failure and text"], ratios["many rows"])


def _bound(check: Callable[[Any], Any], value: Any) -> Call:
    return lambda: check(value)
