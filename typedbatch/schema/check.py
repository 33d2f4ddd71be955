"""The compiled check of each schema, which tells whether a batch matches."""

from __future__ import annotations

import sys
from functools import partial

from typedbatch._core.kinds import TENSOR
from typedbatch.schema.fields import Schema
from typedbatch.schema.generate import Check, can_generate, generate

_CHECKS: dict[Schema, Check] = {}


def check_of(schema: Schema) -> Check:
    """Return the compiled function that checks whether an object matches a schema; always the same one."""
    check = _CHECKS.get(schema)
    if check is None:
        look_up_dtypes(schema)
        check = _CHECKS[schema] = generate(schema) if can_generate(schema) else partial(_walk, schema)
    return check


_TORCH_DTYPES = ("bool", "uint8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def look_up_dtypes(schema: Schema) -> None:
    """Look up torch's usual dtypes among those of tensors, because torch.compile cannot trace a first look-up."""
    torch = sys.modules.get("torch")
    found = {id(option.dtypes): option.dtypes for option in schema.every_option() if option.kind is TENSOR}
    for dtypes in found.values() if torch is not None else ():
        if dtypes is not None:
            dtypes.update({dtype: dtypes[dtype] for dtype in (getattr(torch, name) for name in _TORCH_DTYPES)})


def _walk(schema: Schema, batch: object) -> bool:
    """Check a batch by walking it, for schemas that nest themselves or are too large to generate source for."""
    # Imported here because it takes longer to import than everything else that a check needs.
    from typedbatch.schema.explain import find_problems

    try:
        return not find_problems(batch, schema)
    except Exception:  # noqa: BLE001  # a batch that another thread changes meanwhile may raise anything
        return False
