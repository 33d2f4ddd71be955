"""Declared batch types of a buffer: the arguments of ``ReplayBuffer[GoalRollout]`` at run time."""

from __future__ import annotations

from typing import Any, TypeVar, get_args, get_origin

from numpy import ndarray
from typing_extensions import get_original_bases

from typedbatch._core.kinds import Tree, new_tree, object_array
from typedbatch._core.level import current_level
from typedbatch._validation.validate import validate_at
from typedbatch.buffers.arguments import FIELDS, FILLED_IN
from typedbatch.buffers.incoming import as_row
from typedbatch.schema import schema_of
from typedbatch.schema.fields import Schema
from typedbatch.schema.read import options_of


class DeclaredTypes:
    """Types of added and sampled rows that ``ReplayBuffer[GoalRollout]``, or a class of it, declares.

    ``sampled=`` replaces the second.
    """

    def __init__(self, hint: Any, **instead: Any) -> None:
        args = [None if isinstance(arg, TypeVar) or arg is Any else arg for arg in _arguments_of(hint)]
        added, sampled = args if len(args) == 2 else (None, None)
        self.added: Any = added
        self.sampled: Any = instead.get("sampled", sampled)
        schema = added if sampled is None else sampled
        self.left_out: frozenset[str] = frozenset() if schema is None else frozenset(FILLED_IN) - _field_names(schema)
        """Undeclared fields that the buffer computes or fills in; they are not sampled."""
        self.template: dict[str, Any] = {name: None for name in FIELDS if name not in self.left_out}
        """Fields of a sample in their order, each None until it is read."""
        self.says: bool = added is not None or sampled is not None
        schemas = [schema_of(option) for option in (() if added is None else options_of(added))]
        self.with_items: Schema | None = next((schema for schema in schemas if _takes_items(schema)), None)
        """Schema of batches that are added, if it has columns of objects."""
        self._buffer: str = (get_origin(hint) or hint).__name__
        self._sampling: str = f"result of {self._buffer}.sample()"
        options = () if self.sampled is None else options_of(self.sampled)
        self._union: bool = len(options) > 1
        self._cls: type[Tree] = Tree.__plain__
        if len(options) == 1 and issubclass(target := schema_of(options[0]).target, Tree):
            self._cls = target

    def names(self) -> set[str]:
        """Return the names of all fields that are declared for batches that are added."""
        return _field_names(self.added)

    def typed(self, fields: dict[str, Any]) -> Any:
        """Return rows as the declared sampled type: a record, the matching member of a union, or a plain Batch."""
        rows = new_tree(self._cls, fields)
        return rows if not self._union else validate_at(rows, self.sampled, self._sampling)

    def validate_added(self, fields: dict[str, Any], single: bool) -> None:
        """Validate the fields of a batch that is added; a ``single`` row as a batch of one row."""
        if self.added is not None:
            rows = new_tree(Tree.__plain__, {k: as_row(v) if single else v for k, v in fields.items()})
            self._validate(rows, self.added, f"argument `batch` of {self._buffer}.add()")

    def wrapped(self, row: Any) -> Any:
        """Return a single row in which values for columns of objects are wrapped, so that each is stored as it is."""
        return row if self.with_items is None or not isinstance(row, Tree) else _wrapped(row, self.with_items)

    def validate_sampled(self, rows: Tree) -> None:
        """Validate rows that are sampled."""
        if self.sampled is not None:
            self._validate(rows, self.sampled, self._sampling)

    def _validate(self, rows: Tree, schema: Any, boundary: str) -> None:
        if current_level() != "off":
            validate_at(rows, schema, boundary)


def _takes_items(schema: Schema) -> bool:
    return any(field.takes_objects() or any(map(_takes_items, field.nested)) for field in schema.fields)


def _wrapped(row: Tree, schema: Schema) -> Tree:
    fields = row.__dict__.copy()
    for field in schema.fields:
        value = fields.get(field.name)
        if field.takes_objects() and value is not None:
            if type(value) is ndarray and (value.dtype.hasobject or not value.ndim):
                value = value.tolist()  # a list or a number, before the constructor of the row converted it
            fields[field.name] = object_array([value]).reshape(())
        elif field.nested and isinstance(value, Tree):
            fields[field.name] = _wrapped(value, field.nested[0])
    return new_tree(type(row), fields)


def library_class(hint: Any) -> Any:
    """Return the class of this package that a user's class derives from, or None for any other class."""
    mro = (get_origin(hint) or hint).__mro__
    return next((cls for cls in mro if cls.__module__.partition(".")[0] == "typedbatch"), None)


def _field_names(schema: Any) -> set[str]:
    options = () if schema is None else options_of(schema)
    return {field.name for option in options for field in schema_of(option).fields}


def _arguments_of(hint: Any) -> tuple[Any, ...]:
    """Return the type arguments of the class of this package that a class derives from."""
    cls = get_origin(hint) or hint
    parameters = getattr(cls, "__parameters__", ())
    given = dict(zip(parameters, get_args(hint), strict=False))
    if cls is library_class(cls):
        return tuple(given.get(parameter, parameter) for parameter in parameters)
    for base in get_original_bases(cls):
        if isinstance(origin := get_origin(base) or base, type) and hasattr(origin, "sample_indices"):
            return tuple(given.get(arg, arg) for arg in _arguments_of(base))
    return ()
