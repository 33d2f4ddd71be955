"""The compiled check of each schema, which tells whether a batch matches."""

from __future__ import annotations

from functools import partial

from typedbatch.schema.fields import Schema
from typedbatch.schema.generate import Check, can_generate, generate

_CHECKS: dict[Schema, Check] = {}


def check_of(schema: Schema) -> Check:
    """Return the function that checks whether an object matches a schema.

    It is compiled at the first call; later calls return the same function.
    """
    check = _CHECKS.get(schema)
    if check is None:
        check = _CHECKS[schema] = generate(schema) if can_generate(schema) else partial(_walk, schema)
    return check


def _walk(schema: Schema, batch: object) -> bool:
    """Check a batch by walking it, for schemas that nest themselves or are too large to generate source for."""
    # Imported here because it takes longer to import than everything else that a check needs.
    from typedbatch.schema.explain import find_problems

    try:
        return not find_problems(batch, schema)
    except Exception:  # noqa: BLE001  # a batch that another thread changes meanwhile may raise anything
        return False
