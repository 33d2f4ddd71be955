"""The table of what this package does to batches, against the package."""

from __future__ import annotations

import typedbatch
from typedbatch import Batch
from typedbatch._program.library import BATCH, FUNCTIONS
from typedbatch._program.outside import ROWS
from typedbatch._program.shipped import shipped
from typedbatch._program.tensor_names import TENSOR_NAMES

OF_THE_CLASS = {"cat", "stack", "from_rows"}


def test_every_member_of_a_batch_has_a_row():
    members = {name for name in dir(Batch) if not name.startswith("_")}
    assert members - BATCH.keys() - OF_THE_CLASS == set()
    assert {name for name in BATCH if name not in {*dir(Batch), "__getattribute__", "__setattr__"}} - {"meta"} == set()


def test_every_function_with_a_row_is_there():
    modules = ("", ".buffers", ".conversion", ".posttraining", ".rows", ".training")
    for name in FUNCTIONS:
        assert any(shipped(f"typedbatch{module}.{name}") is not None for module in modules), name
    for name in ("extend", "validate", "convert", "cat", "stack", "conforms"):
        assert callable(getattr(typedbatch, name))


def test_rows_of_python_are_of_what_it_has():
    import importlib

    for full in ROWS:
        module, _, name = full.rpartition(".")
        assert hasattr(importlib.import_module(module), name), full


def test_names_of_tensors_are_those_of_torch():
    torch = shipped("typedbatch._core.tensors")
    assert torch is not None
    import numpy as np
    from torch import Tensor

    known = {*dir(np.ndarray), *dir(dict), *dir(list), *dir(str), *dir(float)}
    public = {name for name in dir(Tensor) if not name.startswith("_") and not name.endswith("_")}
    assert public - known - TENSOR_NAMES == set()
