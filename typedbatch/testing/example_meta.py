"""Example meta for a declaration: the required keys, with simple values."""

from __future__ import annotations

from typing import Any, Final

from typedbatch.errors import SettingError
from typedbatch.schema.declared_meta import MetaSchema

_CANDIDATES: Final[tuple[Any, ...]] = (1, 1.0, "text", False, None, {}, [], (), b"", set())


def example_meta(schema: MetaSchema, path: str) -> dict[str, Any]:
    """Return a dict with a value for each required key.

    Raises:
        SettingError: no simple value has the declared type of a key.
    """
    return {name: _value(schema, name, path) for name, key in schema.keys.items() if key.required}


def _value(schema: MetaSchema, name: str, path: str) -> Any:
    nested = schema.nested(name)
    if nested is not None:
        return example_meta(nested, path)
    for value in (*schema.choices(name), *_CANDIDATES):
        if schema.takes(name, value):
            return value.copy() if isinstance(value, (dict, list, set)) else value
    raise SettingError(f"no example is known of meta[{name!r}]; pass a value: fields={{{path!r}: ...}}", path)
