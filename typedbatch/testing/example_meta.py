"""Example meta for a declaration: the required keys, with simple values."""

from __future__ import annotations

from copy import copy
from typing import Any, Final

from typedbatch.errors import SettingError
from typedbatch.schema.declared_meta import MetaSchema

_CANDIDATES: Final[tuple[Any, ...]] = (1, 1.0, "text", False, None, {}, [], (), b"", set())


def example_meta(schema: MetaSchema, path: str) -> dict[str, Any]:
    """Return a dict with a value for each required key.

    Raises:
        SettingError: no simple value has the declared type of a key.
    """
    meta: dict[str, Any] = {}
    for name in (name for name, key in schema.keys.items() if key.required):
        nested = schema.nested(name)
        if nested is not None:
            meta[name] = example_meta(nested, path)
            continue
        for value in (*schema.choices(name), *_CANDIDATES):
            if schema.takes(name, value):
                meta[name] = copy(value)
                break
        else:
            raise SettingError(f"no example is known of meta[{name!r}]; pass a value: fields={{{path!r}: ...}}", path)
    return meta
