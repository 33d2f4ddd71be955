"""The meta of batches that are joined: one rule for where they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from typedbatch._ops.equality import same_leaf
from typedbatch._tree.leaves import describe
from typedbatch._tree.meta import FieldsWithMeta
from typedbatch.errors import SettingError, StructureError

MetaRule: TypeAlias = Literal["error", "first", "drop"] | Mapping[str, Callable[[list[Any]], Any]]
"""What becomes of a key of the meta that differs between joined batches, or that some lack: an error, the value of the
first batch that has it, or nothing; or what a function for the key makes of the list of the values."""

_RULES: Final = ("error", "first", "drop")


def require_rule(rule: Any) -> None:
    """Raise an error unless ``rule`` is a :data:`MetaRule`.

    Raises:
        SettingError: it is none.
    """
    if isinstance(rule, Mapping):
        if wrong := next((key for key, function in rule.items() if not callable(function)), None):
            raise SettingError(f"meta= has a function for each key, got {rule[wrong]!r} for {wrong!r}")
    elif not isinstance(rule, str) or rule not in _RULES:
        raise SettingError(f"meta= is 'error', 'first', 'drop' or functions by key, as {{'step': max}}, got {rule!r}")


def joined_meta(parts: Sequence[Mapping[str, Any]], rule: MetaRule) -> dict[str, Any]:
    """The meta of the batch that is joined from batches with these fields; those without any field have no say.

    Raises:
        StructureError: a key differs, or some lack it, and ``rule`` does not say what to do.
    """
    metas = [part.meta if isinstance(part, FieldsWithMeta) else {} for part in parts if part]
    joined = {}
    for key in dict.fromkeys(key for meta in metas for key in meta):
        values = [meta[key] for meta in metas if key in meta]
        agreed = len(values) == len(metas) and all(same_leaf(values[0], value) for value in values[1:])
        if not isinstance(rule, str) and key in rule:
            joined[key] = _called(rule[key], values, key)
        elif agreed or rule == "first":
            joined[key] = values[0]
        elif rule != "drop":
            raise _disagreement(key, values, len(metas))
    return joined


def _called(function: Callable[[list[Any]], Any], values: list[Any], key: str) -> Any:
    try:
        return function(values)
    except Exception as error:  # the user's own function
        raise StructureError(f"its function in meta= raises {type(error).__name__}: {error}", f"meta.{key}") from error


def _disagreement(key: str, values: list[Any], count: int) -> StructureError:
    if len(values) < count:
        says = f"{count - len(values)} of {count} batches lack it"
    else:
        other = next(value for value in values[1:] if not same_leaf(values[0], value))
        says = f"the batches differ: {_shown(values[0])}, {_shown(other)}"
    hint = f"meta='first' takes the first, meta='drop' leaves it out, meta={{{key!r}: max}} calls a function"
    return StructureError(f"{says}; {hint}", f"meta.{key}")


def _shown(value: Any) -> str:
    return repr(value) if isinstance(value, (bool, int, float)) else describe(value)
