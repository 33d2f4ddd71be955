"""Open batches: fields of any name are read, written and deleted, by name and by item, as ``Any``."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import assert_type

from typedbatch import Batch, BatchProtocol, DynamicBatch, ObsBatch, RolloutBatchProtocol, SchemaError, cat, validate

Array = NDArray[Any]


def items(b: Batch) -> None:
    assert_type(b["obs"], Any)
    assert_type(b["obs"]["cam"], Any)
    assert_type(Batch({"items": [1], "a.b": [2]})["items"], Any)
    assert_type(b[:2], Batch)
    assert_type(b[:2]["obs"], Any)
    assert_type(b.get("weight", 1.0), Any)
    assert_type(b.pop("weight", None), Any)
    assert_type(b.setdefault("weight", [1.0, 1.0, 1.0]), Any)
    assert_type(list(b.keys()), list[str])
    assert_type(dict(b.items()), dict[str, Any])
    assert_type("obs" in b, bool)
    assert_type(b.shape, list[int])
    assert_type(b.is_empty(recurse=True), bool)
    assert_type(b.to_dict(), dict[str, Any])
    assert_type(b.to_list_of_dicts(), list[dict[str, Any]])
    assert_type(b == b.copy(), bool)
    assert_type(b.allclose(b), bool)


@dataclass
class Statistics:
    rewards: Batch = field(default_factory=Batch)


def fields(b: Batch, many: list[Batch], s: Statistics) -> None:
    assert_type(b.obs, Any)
    assert_type(b.obs.cam, Any)
    assert_type(b.obs.cam.mean(), Any)
    assert_type(b[:2].obs, Any)
    assert_type(many[0].info.env_id, Any)
    assert_type(cat([b, b]).obs.cam, Any)
    assert_type(b.to_torch().act, Any)
    assert_type(Batch(obs=[1]).obs, Any)
    assert_type([row.act for row in b], list[Any])
    assert_type(b.meta, Any)
    b.adv = np.zeros(3)
    b.adv += 1
    b.obs.pos = [1.0, 2.0, 3.0]
    s.rewards.mean = b.act.mean()
    assert_type(s.rewards.mean, Any)
    del b.adv, b.obs.pos


def writes(b: Batch) -> None:
    b["adv"] = np.zeros(3)
    b["nested"] = {"cam": [1.0, 2.0, 3.0]}
    b[0] = {"act": 1}
    b[[0, 1]] = Batch(act=[1, 2])
    b.update(rew=[1.0, 2.0, 3.0])
    b.update({"rew": [1.0, 2.0, 3.0]}, act=[0, 1, 2])
    b.set_array_at_key(np.ones(3), "adv")
    b.set_rows(0, {"act": 7})
    del b["adv"]


def arithmetic(b: Batch) -> None:
    assert_type(b + 1, Batch)
    assert_type(b + b, Batch)
    assert_type(2 * b, Batch)
    assert_type(b / 2, Batch)
    assert_type(-b, Batch)
    b += 1
    b *= 2.0


def conversions(b: Batch) -> None:
    assert_type(b.to_torch(), Batch)
    assert_type(b.to_torch(dtype=torch.float32, device="cpu"), Batch)
    assert_type(b.to_numpy(), Batch)
    assert_type(b.isnull(), Batch)
    assert_type(b.hasnull(), bool)
    assert_type(b.apply_values_transform(np.asarray), Batch)
    b.to_torch_()
    b.to_numpy_()


def dynamic(b: DynamicBatch) -> None:
    assert_type(b.obs, Any)
    assert_type(b.obs.cam.mean(), Any)
    b.adv = np.zeros(3)
    assert_type(b[:2], DynamicBatch)
    assert_type(b[:2].obs, Any)
    b.whatever = "text"
    plain: Batch = b
    assert_type(plain["adv"], Any)


def explore(b: BatchProtocol) -> list[str]:
    return [name for name in b.keys() if b[name] is not None]


def from_tables(numbers: dict[str, int], arrays: dict[str, NDArray[np.float32]]) -> Batch:
    assert_type(Batch(**numbers), Batch)  # and not "int is not a bool", for the sake of copy=
    return Batch({"a": 1}, **arrays)


class Log(Batch):
    """A batch with a method."""

    def bump(self, name: str) -> None:
        self[name] = self.get(name, 0.0) + 1.0


def describe(value: object) -> str:
    match value:
        case Batch() if value.is_empty():
            return "empty"
        case Batch():
            return ",".join(f"{key}={describe(item)}" for key, item in value.items())
        case np.ndarray():
            return f"{value.dtype}{list(value.shape)}"
        case _:
            return type(value).__name__


def gate(table: list[dict[str, float]], b: Batch) -> int:
    assert_type(Batch(table), Batch)
    assert_type(Batch(b), Batch)
    assert_type(Batch({"obs": [1]}, act=[1], copy=True), Batch)
    try:
        return len(validate(b, RolloutBatchProtocol).rew)
    except SchemaError as error:
        assert_type(error.problems[0].path, str)
        return len(error.problems) + len(error.problems[0].code)


def main() -> None:
    batch = Batch(obs={"cam": np.zeros((3, 2))}, act=[0, 1, 2])
    items(batch)
    fields(batch, [Batch(info={"env_id": [0]})], Statistics())
    writes(batch)
    arithmetic(Batch(a=[1.0, 2.0]))
    conversions(Batch(a=[1.0, 2.0]))
    dynamic(DynamicBatch(obs=Batch(cam=np.zeros((3, 2)))))
    assert explore(batch)
    assert len(from_tables({"a": 1}, {"b": np.zeros(2, np.float32)}).keys()) == 2
    assert gate([{"a": 1.0}], batch) > 0
    log = Log()
    log.bump("calls")
    assert_type(log.copy(), Log)
    assert describe(Batch(log=log, none=Batch())) == "log=calls=float64[],none=empty"
    assert len(validate(DynamicBatch(obs=[1, 2], info=Batch()), ObsBatch).obs) == 2


main()
