"""Meta for a declaration: the keys that must be there, with simple values."""

from __future__ import annotations

from typing import Any, Final

from typedbatch.errors import SettingError
from typedbatch.schema.meta import MetaSchema

_CANDIDATES: Final[tuple[Any, ...]] = (1, 1.0, "text", False, None, {}, [], (), b"", set())


def example_meta(schema: MetaSchema, path: str) -> dict[str, Any]:
    """A value for each key that must be there.

    Raises:
        SettingError: no simple value is of the type that is declared for a key.
    """
    made: dict[str, Any] = {}
    for name, key in schema.keys.items():
        if key.required:
            made[name] = _value(schema, name, path)
    return made


def _value(schema: MetaSchema, name: str, path: str) -> Any:
    nested = schema.nested(name)
    if nested is not None:
        return example_meta(nested, path)
    for value in (*schema.choices(name), *_CANDIDATES):
        if schema.takes(name, value):
            return value.copy() if isinstance(value, (dict, list, set)) else value
    raise SettingError(f"nothing is known that fits meta[{name!r}]; give it: fields={{{path!r}: ...}}", path)
