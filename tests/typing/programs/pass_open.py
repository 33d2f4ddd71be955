"""Open batches: item access is ``Any``, a DynamicBatch takes every name, and both are let through the gate."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from typing_extensions import assert_type

from typedbatch import Batch, BatchProtocol, DynamicBatch, ObsBatch, RolloutBatchProtocol, SchemaError, validate

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
    writes(batch)
    arithmetic(Batch(a=[1.0, 2.0]))
    conversions(Batch(a=[1.0, 2.0]))
    dynamic(DynamicBatch(obs=Batch(cam=np.zeros((3, 2)))))
    assert explore(batch)
    assert len(from_tables({"a": 1}, {"b": np.zeros(2, np.float32)}).keys()) == 2
    assert gate([{"a": 1.0}], batch) > 0
    assert len(validate(DynamicBatch(obs=[1, 2], info=Batch()), ObsBatch).obs) == 2


main()
