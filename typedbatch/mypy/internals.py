"""Every part of mypy that is not its plugin API, each behind a function that says what is lost without it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from mypy.checker import DeferredNode
from mypy.checker_state import checker_state
from mypy.errors import Errors
from mypy.literals import literal_hash
from mypy.lookup import lookup_fully_qualified
from mypy.nodes import GDEF, Context, Expression, FuncDef, MypyFile, NameExpr, Node, SymbolTableNode, TypeInfo, Var
from mypy.plugin import CheckerPluginInterface, Plugin
from mypy.subtypes import find_member, is_same_type, is_subtype
from mypy.types import (
    AnyType,
    Instance,
    LiteralType,
    Type,
    TypeGuardedType,
    TypeOfAny,
    UnionType,
    get_proper_type,
)

Api = CheckerPluginInterface


def current_checker() -> Api | None:
    """Return the checker of the file that is being checked, or None while mypy does anything else."""
    checker: Any = checker_state.type_checker
    return checker  # type: ignore[no-any-return]  # it has all that plugins use, which its own type leaves out


def plugins_behind(api: object, plugin: Plugin) -> list[Plugin]:
    """Return the plugins that mypy asks after one, its own included."""
    plugins: list[Plugin] = getattr(getattr(api, "plugin", None), "_plugins", [])
    return plugins[plugins.index(plugin) + 1 :] if plugin in plugins else []


def errors_of(api: object) -> Errors | None:
    """Return the errors of a run, of a checker or an analyzer of types."""
    owner: Any = getattr(api, "msg", None) or getattr(api, "api", None)
    return getattr(owner, "errors", None)


def class_named(api: Api, fullname: str) -> TypeInfo | None:
    """Return a class of any module of the build, or None if its module is not part of it, as torch may be."""
    modules: Any = getattr(api, "modules", {})
    found = lookup_fully_qualified(fullname, modules, raise_on_missing=False)
    return found.node if found is not None and isinstance(found.node, TypeInfo) else None


def has_batches(api: Api) -> bool:
    """Return whether any module that mypy builds imports this package; without that, nothing is a batch."""
    return "typedbatch" in getattr(api, "modules", ("typedbatch",))


def known_type(api: Api, expression: Expression) -> Type | None:
    """Return the type that the checker has stored for an expression, or None if it has not come to it yet."""
    lookup: Any = getattr(api, "lookup_type_or_none", None)
    found: Type | None = lookup(expression) if lookup is not None else None
    return found


def remember_type(api: Api, expression: Expression) -> None:
    """Have mypy keep a type for an expression, until it forgets all that it found in the file."""
    store: Any = getattr(api, "store_type", None)
    if store is not None:
        store(expression, AnyType(TypeOfAny.special_form))


def type_of(api: Api, expression: Expression) -> Type:
    """Return the type of an expression, which is found now if it was not before."""
    found = known_type(api, expression)
    return found if found is not None else api.get_expression_type(expression)


def value_type(api: Api, value: Expression) -> Type:
    """Return the type of what is about to be assigned, which mypy takes over when it comes to the value itself.

    It would find something else then, since the batch that is assigned to has changed by that time.
    """
    checker: Any = getattr(api, "expr_checker", None)
    overrides: dict[Expression, Type] | None = getattr(checker, "type_overrides", None)
    if overrides is None:
        return api.get_expression_type(value)
    overrides.pop(value, None)
    overrides[value] = found = api.get_expression_type(value)
    return found


def current_type(api: Api, expression: Expression) -> Type | None:
    """Return the type of a name or attribute by the assignments before this line, or None if there are none."""
    binder: Any = getattr(api, "binder", None)
    found: Type | None = binder.get(expression) if binder is not None else None
    return found.type_guard if isinstance(found, TypeGuardedType) else found


def _guarded(type_: Type) -> Type:
    """Return a type that mypy takes as a narrowed one, without a comparison with the one before field by field."""
    is_plain = isinstance(type_, Instance) and type_.type.fullname == "typedbatch.batch.Batch"
    return TypeGuardedType(type_) if is_plain else type_


def narrow(api: Api, expression: Expression, type_: Type) -> None:
    """Give an expression a type from here on, in this branch. Without it, changes of a batch are not followed."""
    binder: Any = getattr(api, "binder", None)
    if binder is not None:
        binder.put(expression, _guarded(type_))
        for frame in binder.try_frames:  # in a try, a handler may come right after this line
            binder.allow_jump(frame)


def settle(api: Api, expression: Expression, type_: Type) -> None:
    """Say the same of an expression in fewer words: what is known of it now is put where it came from.

    Without it, a union that branches have left grows by each branch that does not touch it.
    """
    binder: Any = getattr(api, "binder", None)
    if binder is None:
        return
    key = literal_hash(expression)
    for frame in reversed(binder.frames):
        if key in frame.types:
            frame.types[key] = type(frame.types[key])(_guarded(type_), frame.types[key].from_assignment)
            binder.version += 1  # what mypy has remembered of expressions is to be found again
            return


def settle_before(api: Api, expression: Expression, one_type: Callable[[Type], Type]) -> None:
    """Say in fewer words what an expression was before, or what loops have left in a name grows with each of them."""
    binder: Any = getattr(api, "binder", None)
    if binder is None:
        return
    key = literal_hash(expression)
    for frame in binder.frames[:-1]:
        held = frame.types.get(key)
        if held is not None and isinstance(get_proper_type(held.type), UnionType):
            frame.types[key] = type(held)(one_type(held.type), held.from_assignment)


def widen_declaration(api: Api, name: NameExpr, type_: Type) -> None:
    """Give a variable whose type was inferred a wider one; what it is on each line is in the binder already."""
    binder: Any = getattr(api, "binder", None)
    if isinstance(name.node, Var) and name.node.is_inferred and binder is not None:
        name.node.type = type_
        for key in [key for key in binder.declarations if key[-1:] == (name.node,)]:
            binder.declarations[key] = type_


def function_around(api: Api) -> Node | None:
    """Return the outermost function that is being checked, or None in the body of a module or class."""
    scope: Any = getattr(api, "scope", None)
    found: Node | None = scope.top_level_function() if scope is not None else None
    return found


def module_around(api: Api) -> MypyFile | None:
    """Return the file that is being checked."""
    tree: MypyFile | None = getattr(api, "tree", None)
    return tree


def is_reported(api: Api) -> bool:
    """Is anything said of the file that is being checked: not of stubs, nor of packages that are only imported."""
    tree, silent = module_around(api), getattr(getattr(api, "errors", None), "ignored_files", ())
    return tree is not None and not tree.is_stub and getattr(api, "path", None) not in silent


def put_off(api: Api, name: str, make: Callable[[], FuncDef]) -> None:
    """Have mypy check a function of our own, once, after all others of the file. Without it, no shapes are checked."""
    waiting: list[DeferredNode] | None = getattr(api, "deferred_nodes", None)
    if waiting is not None and not any(deferred.node.name == name for deferred in waiting):
        waiting.append(DeferredNode(make(), None))


@contextmanager
def reporting_for(api: Api, function: Node | None) -> Generator[None]:
    """Reports belong to this function, so that the daemon forgets them when it checks that one again."""
    scope: Any = getattr(api, "tscope", None)
    target, scope.function = scope.function, function
    try:
        yield
    finally:
        scope.function = target


def report_no_attribute(api: Api, owner: Type, name: str, context: Expression) -> Type:
    """Report an attribute that a class lacks, in mypy's own words."""
    api.msg.has_no_attr(owner, owner, name, context)
    return AnyType(TypeOfAny.from_error)


def add_note(api: Api, text: str, place: Context) -> None:
    """Add a note."""
    checker: Any = api
    checker.note(text, place)


def member_of(type_: Type, name: str) -> Type | None:
    """Return the type of a member of a class or protocol, or None if there is none."""
    proper = get_proper_type(type_)
    return find_member(name, proper, proper) if isinstance(proper, Instance) else None


def fits(value: Type, expected: Type) -> bool:
    """May a value of the one type go where the other is asked for."""
    return is_subtype(value, expected, ignore_pos_arg_names=True)  # so asked, mypy remembers the answer


def same(one: Type, other: Type) -> bool:
    """Are the two types the same."""
    return is_same_type(one, other)


def depend(api: Api, module: str, name: str) -> None:
    """Have mypy check the current function again after a symbol of another module has changed."""
    checker: Any = api
    checker.module_refs.add(module)
    watch(api, name)


def watch(api: Api, name: str) -> None:
    """Have mypy's daemon check the current function again after the symbol of a full name has changed."""
    checker: Any = api
    checker.tree.plugin_deps.setdefault(f"<{name}>", set()).add(checker.tscope.current_full_target())


def publish(api: Api, name: str, text: Callable[[], str]) -> None:
    """Give the file that is being checked a symbol with a text, so that those who watch it learn of a change.

    Only the daemon watches.
    """
    tree = module_around(api) if api.options.fine_grained_incremental else None
    if tree is not None and name not in tree.names and is_reported(api):
        variable = Var(name, LiteralType(text(), api.named_generic_type("builtins.str", [])))
        variable._fullname = f"{tree.fullname}.{name}"  # noqa: SLF001  # mypy sets it itself, and has no other way
        tree.names[name] = SymbolTableNode(GDEF, variable, module_public=False)
