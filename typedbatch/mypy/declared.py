"""Declared shapes: read where the annotation is, and kept on mypy's type; marks of fields, kept with their class."""

from __future__ import annotations

from typing import Any, Final

from mypy.nodes import (
    AssignmentStmt,
    Expression,
    FuncDef,
    Import,
    ImportFrom,
    IndexExpr,
    MemberExpr,
    MypyFile,
    NameExpr,
    Node,
    StrExpr,
    TupleExpr,
    TypeAlias,
    TypeInfo,
)
from mypy.plugin import AnalyzeTypeContext
from mypy.types import (
    CallableType,
    ExtraAttrs,
    FunctionLike,
    Instance,
    LiteralType,
    ProperType,
    RawExpressionType,
    TupleType,
    Type,
    UnboundType,
    UnionType,
    get_proper_type,
)

from typedbatch._program.arrays.declared import Declared, shape_in
from typedbatch._program.arrays.dtypes import JAXTYPING, Dtypes, dtype_named
from typedbatch.errors import DeclarationError
from typedbatch.mypy.engine.report import SHAPE
from typedbatch.mypy.internals import analyzed_by_mypy
from typedbatch.mypy.nodes import nodes_in
from typedbatch.schema.dims import Dim, Shape, Sort

_HOME: Final = "typedbatch._markers."
_KEPT: Final = "typedbatch steps"


def note_mark(analyser: Any, annotation: UnboundType) -> None:
    """Note the mark in an annotation for the field that is declared by it, if it is in the body of a class."""
    semantic = analyser.api
    mark = next(filter(None, (_mark(analyser, arg) for arg in annotation.args[1:])), None)
    owner, statement = getattr(semantic, "type", None), getattr(semantic, "statement", None)
    if mark is None or not isinstance(owner, TypeInfo):
        return
    field = ""
    if isinstance(statement, FuncDef):
        field = statement.name
    elif isinstance(statement, AssignmentStmt) and isinstance(statement.lvalues[0], NameExpr):
        field = statement.lvalues[0].name
    if field:
        owner.metadata.setdefault(_KEPT, {})[field] = mark


def _mark(analyser: Any, argument: object) -> str | None:
    if not isinstance(argument, UnboundType):
        return None
    found = analyser.api.lookup_qualified(argument.name, argument, suppress_errors=True)
    name = (found.fullname or "") if found is not None else ""
    return name.removeprefix(_HOME) if name.startswith(_HOME) else None


def mark_of(owner: TypeInfo, field: str) -> str | None:
    """Return the name of the mark of a field, by the class that declares it: ``PerStep``, ``Flag``, ``StepsFirst``."""
    base = owner.get_containing_type_info(field)
    return base.metadata.get(_KEPT, {}).get(field) if base is not None else None


KEY = "declared shape"  # no attribute can have this name
ANNOTATED = frozenset({"typing.Annotated", "typing_extensions.Annotated"})
_TORCH, _NUMPY = "torch._tensor.Tensor", "numpy.ndarray"
CLASSES = frozenset({_TORCH, _NUMPY})
# ---- where the annotation is ----------------------------------------------------------------------------------------


def annotated(ctx: AnalyzeTypeContext) -> Type:
    """What mypy makes of ``Annotated[...]``; where it is jaxtyping's, its words are kept on the array's type."""
    analyser: Any = ctx.api
    note_mark(analyser, ctx.type)
    out: Type = analyser.try_analyze_special_unbound_type(ctx.type, "typing.Annotated")
    text = _text(ctx.type)
    if text is None or not isinstance(out, Instance) or out.type.fullname not in CLASSES:
        return out
    return _with_words(ctx, out, _jaxtyping_word(analyser.api, ctx.type.name), text)


def aliased(ctx: AnalyzeTypeContext) -> Type:
    """Return a class of arrays as mypy analyzes it; in ``PerToken: TypeAlias = Float[Tensor, "N R"]`` with these words.

    mypy drops what is behind the comma there, before it asks for a hook of ``Float``.
    """
    analyser: Any = ctx.api
    out = analyzed_by_mypy(analyser, ctx.type)
    statement: Any = getattr(analyser.api, "statement", None)
    value = statement.rvalue if isinstance(statement, AssignmentStmt) else getattr(statement, "value", None)
    if not isinstance(value, Node) or not isinstance(out, Instance):
        return out
    for node in nodes_in(value):
        words = node.index.items if isinstance(node, IndexExpr) and isinstance(node.index, TupleExpr) else []
        if len(words) != 2 or not isinstance(words[1], StrExpr) or not isinstance(node.base, (NameExpr, MemberExpr)):
            continue
        if (words[0].line, words[0].column) == (ctx.type.line, ctx.type.column):
            return _with_words(ctx, out, _jaxtyping_word(analyser.api, _dotted(node.base)), words[1].value)
    return out


def declared_alias(node: object) -> Instance | None:
    """Return the array that an alias stands for, if its shape is declared: mypy would take its class alone."""
    target = get_proper_type(node.target) if isinstance(node, TypeAlias) else None
    if not isinstance(target, Instance) or target.args or target.extra_attrs is None:
        return None
    return target if KEY in target.extra_attrs.attrs else None


def of_alias(ctx: AnalyzeTypeContext, name: str, target: Instance) -> Type:
    """Return what an alias of a full name stands for, with its words."""
    analyser: Any = ctx.api
    analyser.aliases_used.add(name)
    out = target.copy_modified()
    out.extra_attrs = target.extra_attrs
    out.set_line(ctx.type)
    return out


def _dotted(node: Expression) -> str:
    return f"{_dotted(node.expr)}.{node.name}" if isinstance(node, MemberExpr) else getattr(node, "name", "")


def _with_words(ctx: AnalyzeTypeContext, array: Instance, word: str | None, text: str) -> Type:
    """Return the type of an array with the words of a declaration."""
    analyser: Any = ctx.api
    if word not in JAXTYPING:
        return array
    try:
        shape_in(text)
    except DeclarationError as error:
        ctx.api.fail(str(error), ctx.context, code=SHAPE)
        return array
    out = array.copy_modified()
    out.extra_attrs = ExtraAttrs(
        {KEY: LiteralType(f"{word}|{text}", analyser.named_type("builtins.str", []))}, set(), None
    )
    return out


def _text(unbound: UnboundType) -> str | None:
    """The text behind the comma, as it was written."""
    if len(unbound.args) != 2:
        return None
    words = unbound.args[1]
    if isinstance(words, RawExpressionType):
        return words.literal_value if isinstance(words.literal_value, str) else None
    return words.original_str_expr if isinstance(words, UnboundType) else None


def _jaxtyping_word(semantic: Any, name: str) -> str | None:
    """What a name is called in jaxtyping; None if it is not from there."""
    tree = semantic.modules.get(semantic.cur_mod_id)
    first, _, rest = name.rpartition(".")
    return _imported(semantic.modules, tree, first, rest, 5) if tree is not None else None


def _imported(modules: dict[str, MypyFile], tree: MypyFile, module: str, name: str, depth: int) -> str | None:
    for statement in tree.imports:
        if module and isinstance(statement, Import):
            if any(id_ == "jaxtyping" and (as_ or id_) == module for id_, as_ in statement.ids):
                return name
        elif not module and isinstance(statement, ImportFrom):
            for original, as_ in statement.names:
                if (as_ or original) != name:
                    continue
                if statement.id == "jaxtyping" and not statement.relative:
                    return original
                other = modules.get(_absolute(statement, tree))
                if other is not None and depth:
                    return _imported(modules, other, "", original, depth - 1)
    return None


def _absolute(statement: ImportFrom, tree: MypyFile) -> str:
    if not statement.relative:
        return statement.id
    package = tree.fullname.split(".")
    above = package[: len(package) - statement.relative + tree.is_package_init_file()]
    return ".".join([*above, statement.id] if statement.id else above)


# ---- read off a type ------------------------------------------------------------------------------------------------


def declared_by(type_: Type | None) -> Declared | None:
    """What a type declares of an array; of a union with None, the array's. None if it declares nothing."""
    proper = get_proper_type(type_) if type_ is not None else None
    if isinstance(proper, UnionType):
        items = [get_proper_type(item) for item in proper.items]
        arrays = [item for item in items if isinstance(item, Instance) and item.type.fullname in (_TORCH, _NUMPY)]
        others = [item for item in items if isinstance(item, Instance) and item not in arrays]
        return declared_by(arrays[0]) if len(arrays) == 1 and not others else None
    if not isinstance(proper, Instance) or proper.type.fullname not in (_TORCH, _NUMPY):
        return None
    torch = proper.type.fullname == _TORCH
    kept = proper.extra_attrs.attrs.get(KEY) if proper.extra_attrs is not None else None
    if isinstance(kept, LiteralType) and isinstance(kept.value, str):
        word, _, text = kept.value.partition("|")
        return Declared(shape_in(text), JAXTYPING.get(word), torch)
    return None if torch else _of_numpy(proper)


def declares(signature: FunctionLike) -> bool:
    """Does a function declare the shape of what it takes or gives."""
    if not isinstance(signature, CallableType):
        return True
    return any(_has_key(type_) for type_ in signature.arg_types) or _has_key(signature.ret_type)


def declares_result(signature: CallableType) -> bool:
    """Does a function declare the shape of what it gives."""
    return _has_key(signature.ret_type)


def _has_key(type_: Type, depth: int = 3) -> bool:
    """Is there a declared array in a type; so deep only, as a type may be inside itself."""
    proper = get_proper_type(type_)
    if isinstance(proper, Instance):
        return proper.extra_attrs is not None or (depth > 0 and any(_has_key(arg, depth - 1) for arg in proper.args))
    if not isinstance(proper, (UnionType, TupleType)) or not depth:
        return False
    return any(_has_key(item, depth - 1) for item in proper.items)


def is_array(type_: Type | None) -> bool:
    """Is it certain to be an array or tensor."""
    proper = get_proper_type(type_) if type_ is not None else None
    if not isinstance(proper, Instance):
        return False
    return proper.type.fullname in (_TORCH, _NUMPY) or proper.type.has_base(_TORCH)


def _of_numpy(array: Instance) -> Declared | None:
    """Numpy's own notation: ``np.ndarray[tuple[int, Literal[4]], np.dtype[np.float32]]``, ``NDArray[np.int64]``."""
    if len(array.args) != 2:
        return None
    shape, dtype = (get_proper_type(arg) for arg in array.args)
    dims = _numpy_dims(shape) if isinstance(shape, TupleType) else None
    scalar = get_proper_type(dtype.args[0]) if isinstance(dtype, Instance) and dtype.args else None
    return Declared(dims, _numpy_dtypes(scalar), torch=False)


def _numpy_dims(shape: TupleType) -> Shape | None:
    dims = []
    for item in map(get_proper_type, shape.items):
        if isinstance(item, LiteralType) and isinstance(item.value, int):
            dims.append(Dim(Sort.FIXED, str(item.value)))
        elif isinstance(item, Instance) and item.type.fullname == "builtins.int":
            dims.append(Dim(Sort.ANY, "_"))
        else:
            return None
    return Shape(tuple(dims))


_GROUPS = {"floating": "float", "signedinteger": "int", "unsignedinteger": "uint", "complexfloating": "complex"}


def _numpy_dtypes(scalar: ProperType | None) -> Dtypes | None:
    if not isinstance(scalar, Instance):
        return None
    module, _, name = scalar.type.fullname.rpartition(".")
    if module != "numpy":
        return None
    if name in _GROUPS and scalar.args:
        bits = get_proper_type(scalar.args[0])
        width = bits.type.name.strip("_").removesuffix("Bit") if isinstance(bits, Instance) else ""
        times = 2 if name == "complexfloating" else 1
        return dtype_named(f"{_GROUPS[name]}{int(width) * times}", torch=False) if width.isdigit() else None
    return dtype_named(name, torch=False)
