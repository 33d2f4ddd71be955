"""Example values of types: those of the meta, and the items of columns of objects."""

from __future__ import annotations

from copy import copy
from typing import Any, Final, Literal, get_args, get_origin

from typing_extensions import is_typeddict

from typedbatch.errors import SettingError
from typedbatch.schema.annotations import alternatives, bare, show
from typedbatch.schema.declared_meta import MetaSchema, is_of_type, read_typed_dict

_CANDIDATES: Final[tuple[Any, ...]] = (1, 1.0, "text", False, None, {}, [], (), b"", set())


def example_meta(schema: MetaSchema, path: str) -> dict[str, Any]:
    """Return a dict with a value for each required key."""
    meta: dict[str, Any] = {}
    for name in (name for name, key in schema.keys.items() if key.required):
        try:
            meta[name] = example_value(schema.keys[name].hint)
        except SettingError:
            text = f"no example is known of meta[{name!r}]; pass a value: fields={{{path!r}: ...}}"
            raise SettingError(text, path) from None
    return meta


def example_value(hint: Any) -> Any:
    """Return a new simple value of a type, or raise a SettingError if none is known."""
    hint, _ = bare(hint)
    choices: tuple[Any, ...] = ()
    for option in alternatives(hint):
        if is_typeddict(get_origin(option) or option):
            return example_meta(read_typed_dict(option), "")
        if get_origin(option) is Literal:
            choices += get_args(option)
    for value in (*choices, *_CANDIDATES):
        if is_of_type(value, hint):
            return copy(value)
    raise SettingError(f"no example is known of {show(hint)}")
