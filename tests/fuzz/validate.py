"""Coverage-guided fuzzing of validation with atheris: ``make fuzz`` runs it, ``make test`` does not.

From the fuzzer's bytes come a declaration and a batch, hostile leaves among its own. Whatever they are, the generated
check and the explanation agree, nothing but SchemaError is raised, and the batch stays as it was.
"""

from __future__ import annotations

import sys
from typing import Any

import atheris
import numpy as np
from jaxtyping import Shaped

with atheris.instrument_imports(include=["typedbatch"]):
    from typedbatch import Batch, SchemaError, conforms, schema_of, validate
    from typedbatch.schema.explain import find_problems
    from typedbatch.schema.generate import check_of

from tests.schema.test_generated import LEAVES, Sized, union
from tests.validation.helpers import Cam, CamPos, Tree, record
from tests.validation.test_hostile import leaves, raw

NAMES = ["a", "b", "c", "cam", "pos", "grid", "flat", "value", "child", "a b", "d"]
GRID = Shaped[np.ndarray, "N d"]
HINTS = [*(hint for hint, _ in LEAVES), Cam, CamPos, Sized, Tree]
VALUES = [*(value for _, value in LEAVES), *leaves().values()]


def hint_from(data: atheris.FuzzedDataProvider, depth: int) -> Any:
    choice = data.ConsumeIntInRange(0, 9)
    if choice == 0 and depth:
        return union([hint_from(data, depth - 1) for _ in range(data.ConsumeIntInRange(2, 3))])
    if choice == 1 and depth:
        return dict[str, hint_from(data, depth - 1)]  # type: ignore[misc]
    if choice == 2 and depth:
        return record_from(data, depth - 1)
    return data.PickValueInList(HINTS)


def record_from(data: atheris.FuzzedDataProvider, depth: int) -> Any:
    names = {data.PickValueInList(NAMES) for _ in range(data.ConsumeIntInRange(1, 4))}
    fields = {name: hint_from(data, depth) for name in sorted(names)}
    return record(**{"d": GRID if data.ConsumeBool() else Any, **fields})


def batch_from(data: atheris.FuzzedDataProvider, depth: int) -> Batch:
    names = [data.PickValueInList(NAMES) for _ in range(data.ConsumeIntInRange(0, 5))]
    batch = raw(**{name: value_from(data, depth) for name in names})
    if data.ConsumeIntInRange(0, 19) == 7:
        batch.__dict__["child"] = batch
    return batch


def value_from(data: atheris.FuzzedDataProvider, depth: int) -> Any:
    return batch_from(data, depth - 1) if depth and data.ConsumeBool() else data.PickValueInList(VALUES)


def one(raw_bytes: bytes) -> None:
    data = atheris.FuzzedDataProvider(raw_bytes)
    try:
        schema = record_from(data, 2)
    except TypeError:  # a union that Python has no words for, or a size computed from a name that is not there
        return
    batch = batch_from(data, 3)
    before = dict(batch.__dict__)
    compiled = schema_of(schema)
    problems = find_problems(batch, compiled)
    assert conforms(batch, schema) == check_of(compiled)(batch) == (not problems), (compiled, problems)
    try:
        validate(batch, schema, level="values")
    except SchemaError as error:
        if not str(error):
            raise
    assert batch.__dict__.keys() == before.keys()
    assert all(batch.__dict__[name] is value for name, value in before.items())


if __name__ == "__main__":
    atheris.Setup(sys.argv, one)
    atheris.Fuzz()
