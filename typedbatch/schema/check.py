"""The yes or no of validation."""

from __future__ import annotations

from functools import partial

from typedbatch.schema.fields import Schema
from typedbatch.schema.generate import Check, can_generate, generate

_CHECKS: dict[Schema, Check] = {}


def check_of(schema: Schema) -> Check:
    """The function that says whether an object matches; compiled at the first call, the same function ever after."""
    check = _CHECKS.get(schema)
    if check is None:
        check = _CHECKS[schema] = generate(schema) if can_generate(schema) else partial(_walk, schema)
    return check


def _walk(schema: Schema, batch: object) -> bool:
    """For schemas that nest themselves, which no source without end could be written for."""
    from typedbatch.schema.explain import find_problems  # takes longer to import than all else that a check needs

    try:
        return not find_problems(batch, schema)
    except Exception:  # noqa: BLE001  # a batch that changes while it is looked at may raise anything
        return False
