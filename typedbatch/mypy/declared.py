"""Declared shapes that cannot be read, which are reported where they are declared."""

from __future__ import annotations

from typing import Any, Final

from mypy.nodes import Import, ImportFrom
from mypy.plugin import AnalyzeTypeContext
from mypy.types import RawExpressionType, Type, UnboundType

from typedbatch._program.arrays.declared import shape_in
from typedbatch._program.arrays.dtypes import JAXTYPING
from typedbatch.errors import DeclarationError
from typedbatch.mypy.messages import SHAPE

ANNOTATED: Final = frozenset({"typing.Annotated", "typing_extensions.Annotated"})
"""Full names of what type checkers are told that jaxtyping's classes are."""


def annotated(ctx: AnalyzeTypeContext) -> Type:
    """Return what mypy makes of ``Annotated[...]``, and report a shape of jaxtyping's that cannot be read.

    The run reports it, too, but mypy asks for no hook while it checks a file of declarations alone.
    """
    analyser: Any = ctx.api
    out: Type = analyser.try_analyze_special_unbound_type(ctx.type, "typing.Annotated")
    text = _text(ctx.type)
    if text is not None and ctx.type.name.rpartition(".")[2] in JAXTYPING and _imports_jaxtyping(analyser.api):
        try:
            shape_in(text)
        except DeclarationError as error:
            ctx.api.fail(str(error), ctx.context, code=SHAPE)
    return out


def _imports_jaxtyping(semantic: Any) -> bool:
    tree = semantic.modules.get(semantic.cur_mod_id)
    for one in tree.imports if tree is not None else ():
        if isinstance(one, ImportFrom) and one.id == "jaxtyping":
            return True
        if isinstance(one, Import) and any(name == "jaxtyping" for name, _ in one.ids):
            return True
    return False


def _text(unbound: UnboundType) -> str | None:
    """Return the text behind the comma, as it was written."""
    if len(unbound.args) != 2:
        return None
    words = unbound.args[1]
    if isinstance(words, RawExpressionType):
        return words.literal_value if isinstance(words.literal_value, str) else None
    return words.original_str_expr if isinstance(words, UnboundType) else None
