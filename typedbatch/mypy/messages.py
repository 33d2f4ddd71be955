"""Reports of the plugin, and their error codes. Each code has a page in docs/errors."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

from mypy import errorcodes
from mypy.errorcodes import ErrorCode
from mypy.messages import format_type_distinctly
from mypy.nodes import Expression
from mypy.types import Type

from typedbatch._names import nearest
from typedbatch._program.report import hint, listed
from typedbatch._program.report import unfilled as unfilled
from typedbatch.mypy.internals import Api
from typedbatch.mypy.types.fields import Fields, Rest

# What mypy says in such a place without the plugin has a code of its own; a comment that ignores it goes on to do so.
FIELD = ErrorCode(
    "batch-field", "A batch has no such field on this line", "typedbatch", sub_code_of=errorcodes.ATTR_DEFINED
)
MAYBE = ErrorCode("batch-maybe-field", "A batch has this field only if the program came here another way", "typedbatch")
ARGUMENT = ErrorCode(
    "batch-argument",
    "A batch is not what a function's protocol asks for",
    "typedbatch",
    sub_code_of=errorcodes.ARG_TYPE,
)
EXTEND = ErrorCode("batch-extend", "extend() or convert() cannot make the batch that is asked for", "typedbatch")
SHAPE = ErrorCode("batch-shape", "Shapes that do not fit, or make something else than is meant", "typedbatch")
DTYPE = ErrorCode("batch-dtype", "dtypes that do not fit, or make something else than is meant", "typedbatch")
SWAPPED = ErrorCode("batch-swapped", "Arguments or results have each other's names", "typedbatch")


@cache
def own_code(code: ErrorCode | None) -> ErrorCode:
    """Our code for a batch that is not what is asked for, which a comment that ignores mypy's ignores too."""
    nested = code is not None and code.sub_code_of is None
    return ErrorCode(ARGUMENT.code, ARGUMENT.description, ARGUMENT.category, sub_code_of=code) if nested else ARGUMENT


def not_declared(owner: str, name: str, names: Collection[str]) -> str:
    """Describe a read or write of a field that a protocol or record does not declare."""
    return f'{owner} has no field "{name}"{hint(name, names)}'


def report_undeclared(api: Api, into: str, name: str, names: Collection[str], node: Expression) -> None:
    """Report a keyword of ``extend`` that the target does not declare."""
    near = nearest(name, names)
    hint = f'; did you mean "{near}"?' if near else ""
    api.fail(f'{into} declares no field "{name}"{hint}', node, code=EXTEND)


def report_carried(api: Api, into: str, names: Collection[str], expected: str, got: str, node: Expression) -> None:
    """Report fields that ``extend`` takes over from the batch, and whose kind the target does not declare."""
    text = f'extend() to {into} carries over {listed(names)} as "{got}", and it takes "{expected}"'
    api.fail(f"{text}; convert() the batch first", node, code=EXTEND)


def lacking(asked: str, names: Collection[str], fields: Fields, given: str = "Batch", *, converted: str = "") -> str:
    """Describe a batch without fields that a protocol asks for; ``converted`` is the method that made it untyped."""
    if fields.rest is Rest.DECLARED:
        what_to_do = f"; validate() it, or annotate {asked}"
        if converted:
            what_to_do = f"; {converted}() gives a plain Batch, and convert() keeps the type: {CONVERT[converted]}"
        if not fields.known:
            return f"Batch of unknown content where {asked} is asked for{what_to_do}"
        return f"Batch of unknown content lacks {listed(names)} of {asked}; set here: {_shown(fields)}{what_to_do}"
    return f"{given} lacks {listed(names)} of {asked}; it has {_shown(fields)}"


CONVERT = {
    "to_torch": "convert(batch, RolloutBatch[Tensor], dtype=..., device=...)",
    "to_numpy": "convert(batch, RolloutBatch)",
}
"""The calls that keep the type of a record, for the methods that do not."""


def wrong(api: Api, what: str, expected: Type, got: Type) -> str:
    """Describe a field of another type than the one that is declared."""
    takes, is_ = format_type_distinctly(expected, got, options=api.options)
    return f"Field {what} takes {takes}, got {is_}"


def _shown(fields: Fields) -> str:
    return ", ".join(sorted(fields.known.keys() - fields.maybe)) or "no fields"
