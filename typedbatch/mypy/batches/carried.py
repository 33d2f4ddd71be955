"""The text of a function in the types of its signature, which take it to the files that call it.

mypy keeps nothing else of a function's body for other files: not in its cache, not in the daemon, not between workers.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from textwrap import dedent
from typing import Any

from mypy.nodes import FuncDef, TypeVarExpr
from mypy.plugin import AnalyzeTypeContext
from mypy.semanal import SemanticAnalyzer
from mypy.types import (
    CallableType,
    ExtraAttrs,
    Instance,
    LiteralType,
    TupleType,
    Type,
    TypeVarType,
    UnionType,
    get_proper_type,
)

from typedbatch.mypy.batches.texts import text_in, version_of
from typedbatch.mypy.internals import analyzed_by_mypy
from typedbatch.mypy.types.fields import BATCH

_KEY = "<text>"
_LONGEST = 6_000
"""Longer functions are not followed from other files, so that mypy's cache stays small."""


def carry(ctx: AnalyzeTypeContext) -> Type:
    """Return ``Batch`` as mypy analyzes it; in the signature of a function, with the function's text."""
    analyser: Any = ctx.api
    info = analyser.lookup_qualified(ctx.type.name, ctx.type).node
    found: Type = analyser.analyze_type_with_type_info(info, ctx.type.args, ctx.type, ctx.type.empty_tuple_index)
    text = _text_around(analyser.api)
    return found if text is None or not isinstance(found, Instance) else _with_text(analyser, found, text)


def carry_bound(ctx: AnalyzeTypeContext) -> Type:
    """Return a type variable that is bound to ``Batch``, with the text of the function in its bound."""
    analyser: Any = ctx.api
    found = analyzed_by_mypy(analyser, ctx.type)
    text = _text_around(analyser.api)
    bound = get_proper_type(found.upper_bound) if isinstance(found, TypeVarType) else None
    if text is None or not isinstance(found, TypeVarType) or not isinstance(bound, Instance):
        return found
    return found.copy_modified(upper_bound=_with_text(analyser, bound, text))


def is_bound_to_batch(node: object) -> bool:
    """Return whether a symbol is a type variable for batches."""
    bound = get_proper_type(node.upper_bound) if isinstance(node, TypeVarExpr) else None
    return isinstance(bound, Instance) and bound.type.fullname == BATCH


def _with_text(analyser: Any, type_: Instance, text: str) -> Instance:
    out = type_.copy_modified()
    out.extra_attrs = ExtraAttrs({_KEY: LiteralType(text, analyser.named_type("builtins.str", []))}, set(), None)
    return out


def _text_around(semantic: Any) -> str | None:
    """Return the text of the function whose signature is analyzed; None in a body, a stub, or a nested function."""
    if not isinstance(semantic, SemanticAnalyzer) or semantic.is_func_scope() or semantic.is_stub_file:
        return None
    function = semantic.scope.function
    if not isinstance(function, FuncDef) or function.end_line is None:
        return None
    path = Path(semantic.cur_mod_node.path).absolute()
    text = "\n".join(_lines(path, version_of(path))[function.line - 1 : function.end_line])
    return dedent(text) if len(text) <= _LONGEST else None


@lru_cache(maxsize=4)
def _lines(path: Path, version: int) -> list[str]:
    return text_in(path).split("\n")  # In the daemon, the tree of a file stays the same object when its text changes.


def text_of(function: FuncDef) -> str | None:
    """Return the text of a function of another file; None if none of its types is a batch."""
    if not isinstance(function.type, CallableType):
        return None
    for type_ in [*function.type.arg_types, function.type.ret_type]:
        found = _carried(type_)
        if found is not None:
            return found
    return None


def _carried(type_: Type, depth: int = 3) -> str | None:
    proper = get_proper_type(type_)
    if isinstance(proper, TypeVarType):
        return _carried(proper.upper_bound, depth)
    inner: list[Type] = list(proper.items) if isinstance(proper, (UnionType, TupleType)) else []
    if isinstance(proper, Instance):
        kept = get_proper_type(proper.extra_attrs.attrs.get(_KEY)) if proper.extra_attrs is not None else None
        if isinstance(kept, LiteralType) and isinstance(kept.value, str):
            return kept.value
        inner = list(proper.args)
    texts = (_carried(one, depth - 1) for one in inner if depth)
    return next((text for text in texts if text is not None), None)
