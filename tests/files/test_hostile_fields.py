"""Fields that somebody has made up, in files whose header is right: refused or read, and nothing is executed."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.files.helpers import Steps, refused, with_node
from typedbatch import Batch
from typedbatch.errors import SchemaError, StorageError
from typedbatch.files import load


@pytest.fixture
def path(tmp_path: Any) -> Any:
    return tmp_path / "batch.safetensors"


EMPTY = {"batch": {}, "class": "Batch"}
STEPS = {"json": {}}
NODES: dict[str, Any] = {
    **{f"{one!r}": one for one in (None, 5, "batch", "array", [], ["array"], {}, {"more": 1})},
    **{f"{kind} {one!r}": {kind: one} for kind in ("array", "scalar") for one in ("missing", None, 5, [], {})},
    **{
        f"dtype {one!r}": {"array": "i", "dtype": one, "shape": [2]}
        for one in (
            "O", "V8", "S8", "U2", "f8", "i8", "?", "", None, [], {}, 5, "c32", "M8[x]", "M8[s],M8[s]", ["M8[s]"],
        )
    },
    "dtype wider than the data": {"array": "b", "dtype": "M8[s]", "shape": [1]},
    "dates that are not numbers": {"array": "z", "dtype": "M8[s]", "shape": [4]},
    "no shape": {"array": "i", "dtype": "M8[s]"},
    **{
        f"shape {one!r:.20}": {"array": "i", "dtype": "M8[s]", "shape": one}
        for one in ([3], [2**70], [1.5], "2", [[2]], {"2": 2}, [2**40, 2**40], [0], -5)
    },
    **{f"order {one!r}": {"array": "i", "order": one} for one in ("!", "", None, 5, [], {}, "nonsense")},
    **{
        f"tensor of {one!r}": {"tensor": "i", "torch": one, "requires_grad": False}
        for one in (
            "int32", "float64", "bfloat16", "load", "__class__", "", None, 5, [], "quint8", "bits8", "Tensor", "hub",
        )
    },
    **{
        f"bytes as {one}": {"tensor": "b", "torch": one, "requires_grad": False}
        for one in ("quint8", "bits8", "int4", "bool", "complex32", "uint1", "float8_e8m0fnu")
    },
    "tensor without dtype": {"tensor": "i", "requires_grad": False},
    "tensor without gradient": {"tensor": "i", "torch": "int64"},
    "tensor that is not there": {"tensor": "x", "torch": "int64", "requires_grad": False},
    "gradient of whole numbers": {"tensor": "i", "torch": "int64", "requires_grad": True},
    **{f"objects {one!r}": {"objects": one, "shape": [1]} for one in (5, None, "a", {"a": 1}, [], [1, 2])},
    "objects without shape": {"objects": [1]},
    **{f"objects of {one!r:.20}": {"objects": [1], "shape": one} for one in ("1", [1.0], [2**70], {}, [2], [-1, -1])},
    "policies without fields": {"batch": {}, "class": "MultiAgentBatch"},
    "policies without count": {"batch": {"policy_batches": EMPTY}, "class": "MultiAgentBatch"},
    **{
        f"policies {policies!r:.20} and count {count!r}": {
            "batch": {"policy_batches": policies, "count": count},
            "class": "MultiAgentBatch",
        }
        for policies, count in (
            (STEPS, {"json": 0}), ({"array": "i"}, {"json": 0}), (EMPTY, {"json": -1}), (EMPTY, {"json": 9}),
            (EMPTY, {"json": None}), (EMPTY, {"json": float("nan")}), (EMPTY, {"array": "i"}),
            ({"batch": {"p": {"json": 1}}, "class": "Batch"}, {"json": 0}),
        )
    },
    "a pickle that is not there": {"pickle": "x"},
}  # fmt: skip


@pytest.mark.parametrize("what", NODES)
def test_a_field_that_cannot_be_is_refused(what, path):
    with_node(path, NODES[what])
    for mmap in (False, True):
        refused(path, mmap=mmap)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["i", "b", "z", "int64", "M8[s]", "Batch", ">", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "batch", "class", "array", "scalar", "dtype", "shape", "order", "tensor", "requires_grad",
                    "objects", "json", "it",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)  # fmt: skip


@given(anything, st.booleans())
def test_any_field_at_all_is_read_or_refused(tmp_path_factory, node, mmap):
    path = with_node(tmp_path_factory.mktemp("any") / "a.safetensors", node)
    with contextlib.suppress(StorageError):
        assert isinstance(load(path, mmap=mmap), Batch)
    with pytest.raises((StorageError, SchemaError)):
        load(path, Steps)


def test_a_dtype_does_not_import_modules(path):
    with_node(path, {"tensor": "b", "torch": "_inductor", "requires_grad": False})
    code = (
        "import sys; from typedbatch.files import load; import torch\ntry: load(sys.argv[1])\nexcept ValueError: pass\n"
    )
    code += "print('torch._inductor' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert done.stdout == "False\n", done.stderr
