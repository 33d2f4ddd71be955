"""Rows, sizes, subclasses, depth."""

from __future__ import annotations

import time
from typing import (
    Any,
)

import numpy as np
import torch
from torch import Tensor
from torch.distributions import Categorical, Normal

from tests.validation.helpers import Array, N, fields, paths, record, refused
from typedbatch import (
    ActStateBatch,
    Batch,
    RolloutBatchProtocol,
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


def test_ten_thousand_fields():
    schema = record(**{f"f{i}": Array for i in range(10_000)})
    batch = schema(**{f"f{i}": np.zeros(2) for i in range(10_000)})
    assert validate(Batch(batch), schema).f9999.shape == (2,)
    assert convert(batch, schema) == batch


def test_a_report_on_many_misnamed_fields_is_ready_in_a_moment():
    schema = record(**{f"feature_{i}": Array for i in range(500)})
    batch = Batch({f"feat_{i}": np.zeros(2) for i in range(500)})
    start = time.perf_counter()
    assert len(refused(batch, schema).problems) == 500
    assert time.perf_counter() - start < 3  # cubic in the fields, it takes six times as long


def test_a_report_on_many_conflicting_fields_can_be_read():
    schema = record(**{f"f{i}": Array for i in range(400)})
    one = refused(Batch({f"f{i}": np.zeros(2 if i else 3) for i in range(400)}), schema)
    assert [problem.path for problem in one.problems] == ["f0"]
    assert len(str(one)) < 2_000  # "2 in f1, f2, f3 and 396 more"
    tie = refused(Batch({f"f{i}": np.zeros(2 + i % 2) for i in range(400)}), schema)
    assert len(str(tie)) < 100_000
