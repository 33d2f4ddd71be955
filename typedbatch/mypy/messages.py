"""What the plugin reports, and under which error code. Each code has a page in docs/errors."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches

from mypy.errorcodes import ErrorCode
from mypy.messages import format_type_distinctly
from mypy.nodes import Expression
from mypy.types import Type

from typedbatch.mypy.fields import REST
from typedbatch.mypy.internals import Api

FIELD = ErrorCode("batch-field", "A batch has no such field on this line", "typedbatch")
MAYBE = ErrorCode("batch-maybe-field", "A batch has this field only if the program came here another way", "typedbatch")
ARGUMENT = ErrorCode("batch-argument", "A batch is not what a function's protocol asks for", "typedbatch")
EXTEND = ErrorCode("batch-extend", "extend() or convert() cannot make the batch that is asked for", "typedbatch")


def report_missing(api: Api, name: str, names: Collection[str], node: Expression, maybe: bool) -> None:
    """A read of a field that is not there; ``maybe``, on some of the ways to the line only."""
    if maybe:
        text = f'Batch may have no field "{name}" here: not every way to this line sets it{_hint(name, names)}'
        api.fail(text, node, code=MAYBE)
    else:
        api.fail(f'Batch has no field "{name}"{_hint(name, names)}', node, code=FIELD)


def _hint(name: str, names: Collection[str]) -> str:
    shown = sorted(set(names) - {REST})
    if name in shown:
        return ""
    near = nearest(name, shown)
    if near:
        return f'; did you mean "{near}"?'
    return f"; it has {', '.join(shown)}" if shown else "; it is empty"


def nearest(name: str, names: Collection[str]) -> str:
    """The name that was probably meant; empty when none is near."""
    return next(iter(get_close_matches(name, list(names), n=1)), "")


def report_undeclared(api: Api, into: str, name: str, names: Collection[str], node: Expression) -> None:
    """A keyword of ``extend`` that the target does not declare."""
    near = nearest(name, names)
    hint = f'; did you mean "{near}"?' if near else ""
    api.fail(f'{into} declares no field "{name}"{hint}', node, code=EXTEND)


def report_unfilled(api: Api, what: str, names: Collection[str], node: Expression) -> None:
    """Fields that the target of ``extend`` or ``convert`` asks for, and that nobody gave."""
    api.fail(f"{what} lacks {_listed(names)}", node, code=EXTEND)


def report_lacking(api: Api, asked: str, names: Collection[str], has: Collection[str], node: Expression) -> None:
    """A batch without fields that a protocol asks for."""
    shown = ", ".join(sorted(has)) or "no fields"
    api.fail(f"Batch lacks {_listed(names)} of {asked}; it has {shown}", node, code=ARGUMENT)


def report_wrong(api: Api, what: str, expected: Type, got: Type, node: Expression, code: ErrorCode = ARGUMENT) -> None:
    """A field of another type than the one that is declared."""
    takes, is_ = format_type_distinctly(expected, got, options=api.options)
    api.fail(f"Field {what} takes {takes}, got {is_}", node, code=code)


def _listed(names: Collection[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(names))
