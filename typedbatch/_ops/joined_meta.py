"""Meta of joined batches: the rule for keys in which the batches differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from typedbatch._core.kinds import describe
from typedbatch._core.meta import FieldsWithMeta
from typedbatch._ops.equality import same_value
from typedbatch._report import cut
from typedbatch.errors import SettingError, StructureError

MetaRule: TypeAlias = Literal["error", "first", "drop"] | Mapping[str, Callable[[list[Any]], Any]]
"""Treatment of a key of the meta that differs between joined batches, or that some lack.

It is an error, or the key gets the value of the first batch that has it, or is dropped. In a mapping, the function for
the key is called with the list of its values, and returns the value of the joined batch.
"""

_RULES: Final = ("error", "first", "drop")


def require_rule(rule: Any) -> None:
    """Raise an error unless ``rule`` is a :data:`MetaRule`."""
    if isinstance(rule, Mapping):
        if wrong := next((key for key, function in rule.items() if not callable(function)), None):
            raise SettingError(f"meta= must have a function for each key, got {rule[wrong]!r} for {wrong!r}")
    elif not isinstance(rule, str) or rule not in _RULES:
        raise SettingError(
            f"meta= must be 'error', 'first', 'drop' or a dict of functions, as {{'step': max}}, got {rule!r}"
        )


def joined_meta(parts: Sequence[Mapping[str, Any]], rule: MetaRule | None) -> dict[str, Any]:
    """Return the meta of the batch that is joined from batches with these fields; batches without fields do not count.

    Args:
        parts: Fields of each batch.
        rule: Treatment of a key that differs; None for an error where the caller takes the meta itself, and no rule.
    """
    metas = [part.meta if isinstance(part, FieldsWithMeta) else {} for part in parts if part]
    joined = {}
    for key in dict.fromkeys(key for meta in metas for key in meta):
        values = [meta[key] for meta in metas if key in meta]
        agreed = len(values) == len(metas) and all(same_value(values[0], value) for value in values[1:])
        if isinstance(rule, Mapping) and key in rule:
            try:
                joined[key] = rule[key](values)
            except Exception as error:  # A function of the user may raise anything.
                text = f"the function for it in meta= raises {type(error).__name__}: {error}"
                raise StructureError(text, f"meta.{key}") from error
        elif agreed or rule == "first":
            joined[key] = values[0]
        elif rule != "drop":
            if len(values) < len(metas):
                text = f"{len(metas) - len(values)} of {len(metas)} batches lack it"
            else:
                other = next(value for value in values[1:] if not same_value(values[0], value))
                text = f"the batches differ{difference(values[0], other)}"
            hint = f"meta='first' takes the first, meta='drop' leaves it out, meta={{{key!r}: max}} calls a function"
            if rule is None:
                hint = f"meta={{{key!r}: ...}} sets the meta of the result"
            raise StructureError(f"{text}; {hint}", f"meta.{key}")
    return joined


def difference(one: Any, two: Any) -> str:
    """Return the first different values in two objects, as text behind the words that they differ."""
    where = ""
    while type(one) is type(two) and isinstance(one, (dict, list, tuple)) and len(one) == len(two):
        keys = one if isinstance(one, dict) else range(len(one))
        key = next((key for key in keys if key not in two and isinstance(two, dict)), None)
        if key is not None:
            return f"{where and f' in {where}'}: only one has {key!r}"
        key = next(key for key in keys if not same_value(one[key], two[key]))
        where, one, two = f"{where}[{key!r}]", one[key], two[key]
    simple = (bool, int, float, str, type(None))
    shown = [cut(repr(value), 40) if isinstance(value, simple) else describe(value) for value in (one, two)]
    return f"{where and f' in {where}'}: {', '.join(shown)}"
