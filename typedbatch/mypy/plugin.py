"""The plugin as mypy sees it. Each hook answers with what mypy would have said itself when it meets the unexpected."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cache, partial, wraps
from pathlib import Path
from typing import Any, TypeVar

from mypy.nodes import TypeInfo
from mypy.options import Options
from mypy.plugin import (
    AnalyzeTypeContext,
    AttributeContext,
    ClassDefContext,
    FunctionContext,
    FunctionSigContext,
    MethodContext,
    MethodSigContext,
    Plugin,
    ReportConfigContext,
)
from mypy.types import LiteralType, Type

from typedbatch.mypy.declared import ANNOTATED, annotated
from typedbatch.mypy.internals import current_checker, has_batches, plugins_behind
from typedbatch.mypy.pending import CALLED, expect, look, want
from typedbatch.mypy.settings import wants_own_codes, wants_shapes, wants_unused_dims
from typedbatch.mypy.types import arguments, attributes, construct, declare, extend, rows, shortcuts
from typedbatch.mypy.types.fields import BATCH
from typedbatch.mypy.types.methods import METHODS, RAGGED, numbered, padded
from typedbatch.mypy.types.numpy_functions import of_batches
from typedbatch.mypy.types.reworded import Rewording
from typedbatch.mypy.whole_program import Wanted, digest_of_program, forget

_rewording = Rewording()
_SWITCH = "TYPEDBATCH_PLUGIN"
"""Name of the constant under which the package declares what the plugin declares in its place."""
C = TypeVar("C", AttributeContext, FunctionContext, MethodContext, FunctionSigContext, MethodSigContext)
Hook = Callable[[C], Any]


def plugin(version: str) -> type[Plugin]:
    """Return the plugin, whatever the version of mypy, which calls this."""
    return TypedBatchPlugin


class TypedBatchPlugin(Plugin):
    """Knows the fields of every plain ``Batch``, and shapes that are declared."""

    def __init__(self, options: Options) -> None:
        if _SWITCH not in options.always_true:
            # A new list, because the daemon compares the old one with that of the next call.
            options.always_true = [*options.always_true, _SWITCH]
        super().__init__(options)
        self._wanted = Wanted(wants_shapes(options), wants_unused_dims(options))
        want(self._wanted)
        forget()

    def report_config_data(self, ctx: ReportConfigContext) -> str:
        """Return the settings, and digests of the plugin's code and of the names in the program of a file.

        mypy asks for it for every file, and does not use what it has in its cache under another text.
        """
        return f"{digest()} {self._wanted} {wants_own_codes()} {digest_of_program(ctx.path)}"

    def get_customize_class_mro_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        if fullname == BATCH:
            return declare.open_batch
        return declare.leave_out_protocol if fullname == declare.OPEN_FIELDS else None

    def get_base_class_hook(self, fullname: str) -> Callable[[ClassDefContext], None] | None:
        if fullname == BATCH:
            return declare.close
        found = self.lookup_fully_qualified(fullname)
        info = found.node if found is not None else None
        return declare.derived if isinstance(info, TypeInfo) and info.has_base(declare.RECORD) else None

    def get_type_analyze_hook(self, fullname: str) -> Callable[[AnalyzeTypeContext], Type] | None:
        return annotated if self._wanted.shapes and fullname in ANNOTATED else None

    def get_function_hook(self, fullname: str) -> Hook[FunctionContext] | None:
        hook = _numpys if fullname.startswith("numpy.") else _FUNCTIONS.get(fullname)
        return self._last("get_function_hook", fullname, hook)

    def get_function_signature_hook(self, fullname: str) -> Hook[FunctionSigContext] | None:
        hook = self._of_signature(fullname, _check_function)
        return self._last("get_function_signature_hook", fullname, hook)

    def get_method_signature_hook(self, fullname: str) -> Hook[MethodSigContext] | None:
        hook = self._of_signature(fullname, _check_method)
        return self._last("get_method_signature_hook", fullname, hook)

    def _of_signature(self, fullname: str, check: Hook[C]) -> Hook[C] | None:
        """Return a hook for a call only where its signature is ours, as mypy asks the first plugin with one alone."""
        api = current_checker()
        if api is not None:
            _rewording.watch(api)
            expect(api)
        if fullname == BATCH:
            return _constructing
        if fullname in _JOINING:
            return _joining
        if fullname.startswith(_ELSEWHERE):
            return None
        return check if arguments.may_ask(self.lookup_fully_qualified, fullname) else None

    def _last(self, kind: str, fullname: str, hook: Hook[C] | None) -> Hook[C] | None:
        """Return a hook that begins with the result of the first plugin behind this one that has a hook, too."""
        if hook is None:
            return None

        def last(ctx: C) -> Any:
            for other in plugins_behind(ctx.api, self):
                theirs = getattr(other, kind)(fullname)
                if theirs is not None:
                    default = next(name for name in ctx._fields if name.startswith("default_"))
                    return hook(ctx._replace(**{default: theirs(ctx)}))
            return hook(ctx)

        return last

    def get_attribute_hook(self, fullname: str) -> Hook[AttributeContext] | None:
        owner, _, name = fullname.rpartition(".")
        hook = None
        if owner == BATCH and name == "__setattr__":
            hook = _set_field
        elif owner == BATCH and name[:2] == "__":
            hook = _special(name)
        elif owner == BATCH and name not in _MEMBERS:
            hook = _read_field(name)
        return self._last("get_attribute_hook", fullname, hook)

    def get_method_hook(self, fullname: str) -> Hook[MethodContext] | None:
        owner, _, name = fullname.rpartition(".")
        hook = _METHODS.get(name) if owner == BATCH else None
        if owner == RAGGED and name == "padded":
            hook = _padded
        elif name[:2] == "__" and (owner == "numpy.ndarray" or owner.startswith(_UFUNCS)):
            hook = _numpys
        return self._last("get_method_hook", fullname, hook)


@cache
def digest() -> str:
    """Return a digest of the code of the plugin, and of the run of a program."""
    found, here = hashlib.sha256(), Path(__file__).parent
    for path in sorted([*here.rglob("*.py"), *(here.parent / "_program").rglob("*.py")]):
        found.update(path.read_bytes())
    return found.hexdigest()


def _or_default(hook: Hook[C], default: str = "default_return_type") -> Hook[C]:
    """Return a hook that leaves mypy's own answer where it fails; ``--show-traceback`` shows the fault."""

    @wraps(hook)
    def safe(ctx: C) -> Any:
        try:
            _rewording.watch(ctx.api)
            expect(ctx.api)
            return hook(ctx)
        except Exception:  # whatever mypy's internals do, a user's run must go on
            if ctx.api.options.show_traceback:
                raise
            return getattr(ctx, default)

    return safe


@cache
def _read_field(name: str) -> Hook[AttributeContext]:
    return _or_default(partial(attributes.read, name=name), "default_attr_type")


@cache
def _special(name: str) -> Hook[AttributeContext]:
    return _or_default(partial(attributes.special, name=name), "default_attr_type")


def _active(ctx: FunctionContext) -> Type:
    return LiteralType(True, ctx.api.named_generic_type("builtins.bool", []))


_set_field = _or_default(attributes.set_field, "default_attr_type")


def _check(ctx: FunctionSigContext | MethodSigContext) -> Any:
    return arguments.check(ctx) if has_batches(ctx.api) else ctx.default_signature


_JOINING = frozenset({f"{BATCH}.cat", f"{BATCH}.stack", "typedbatch.batch.cat", "typedbatch.batch.stack"})
_joining: Hook[Any] = _or_default(lambda ctx: shortcuts.joining(ctx, _check(ctx)), "default_signature")
_constructing: Hook[Any] = _or_default(lambda ctx: shortcuts.constructing(_check(ctx)), "default_signature")
_check_function: Hook[FunctionSigContext] = _or_default(_check, "default_signature")
_check_method: Hook[MethodSigContext] = _or_default(_check, "default_signature")
_ELSEWHERE = ("builtins.", "typing.", "numpy.", "torch.", "einops.")  # nothing there asks for a protocol of batches
_MEMBERS = frozenset({"shape", "meta", "values"})  # of Batch, which checkers see as attributes
_UFUNCS = "numpy._typing._ufunc."
_numpys: Hook[Any] = _or_default(of_batches)
_padded = _or_default(padded)
_METHODS = {name: _or_default(hook) for name, hook in METHODS.items()}
_FUNCTIONS: dict[str, Hook[FunctionContext]] = {
    BATCH: _or_default(construct.construct),
    CALLED: _or_default(look),
    "builtins.enumerate": _or_default(numbered),
    "typedbatch.batch.cat": _or_default(construct.cat),
    "typedbatch.batch.stack": _or_default(construct.stack),
    f"{BATCH}.cat": _or_default(construct.cat),
    f"{BATCH}.stack": _or_default(construct.stack),
    "typedbatch.rows.repeating.repeat": _or_default(rows.repeat),
    "typedbatch.rows.repeating.chunk": _or_default(rows.chunk),
    "typedbatch.rows.joining.union": _or_default(rows.union),
    "typedbatch._validation.validate.extend": _or_default(extend.extend),
    "typedbatch._validation.convert.convert": _or_default(extend.convert),
    "typedbatch._checkers.mypy_plugin_active": _or_default(_active),
}
