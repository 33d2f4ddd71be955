"""Sizes and values that are the same at every call."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from typing import Any, Final, Literal, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from typing_extensions import is_typeddict

from typedbatch._core.kinds import object_array
from typedbatch._ops.conversion import torch_side
from typedbatch.errors import SettingError
from typedbatch.rules import Rule
from typedbatch.schema.annotations import alternatives, bare, show
from typedbatch.schema.column import ItemsAre
from typedbatch.schema.declared_meta import MetaSchema, is_of_type, read_typed_dict
from typedbatch.schema.dims import ROWS
from typedbatch.testing.sizes import Size, Sizes

_FLAGS = {"terminated", "truncated", "done"}
_LIMIT = re.compile(r"(>=|>|<=|<|multiples of) (\S+)")
_CANDIDATES: Final[tuple[Any, ...]] = (1, 1.0, "text", False, None, {}, [], (), b"", set())


class Fixed:
    """The source of sizes and values for :func:`typedbatch.testing.example`."""

    def __init__(self, sizes: Mapping[str, Size]) -> None:
        self.sizes: Sizes = Sizes(sizes, lambda name: 4 if name == ROWS else 3, lambda name: ())

    def lengths(self, count: int) -> list[int]:
        """Return the lengths 2, 3, 4, 2, 3, ..."""
        return [2 + number % 3 for number in range(count)]

    def choose(self, choices: Sequence[Any]) -> Any:
        """Return the first choice."""
        return choices[0]

    def given(self, value: Any) -> Any:
        """Return the value itself."""
        return value

    def array(self, name: str, dtypes: Sequence[Any], shape: tuple[int, ...], rules: Sequence[Rule]) -> Any:
        """Return the first of some simple arrays that follows the rules."""
        flags = [dtype for dtype in dtypes if str(dtype).removeprefix("torch.") == "bool"]
        dtype = flags[0] if flags and name in _FLAGS else dtypes[0]
        for values in _candidates(shape, rules, str(dtype).removeprefix("torch.")):
            array = as_dtype(values, dtype)
            if all(holds(rule, array) for rule in rules):
                return array
        for item in item_types(rules):
            column = object_array([example_value(item) for _ in range(math.prod(shape))]).reshape(shape)
            if all(holds(rule, column) for rule in rules):
                return column
        raise SettingError(f"no values were found that are {', '.join(rule.words for rule in rules)}")


def as_dtype(values: NDArray[Any], dtype: Any) -> Any:
    """Convert numbers to an array or tensor of a dtype."""
    if not isinstance(dtype, np.dtype):
        return torch_side().torch.from_numpy(np.array(values)).to(dtype)
    if dtype.kind == "b":
        return values.astype(int) % 2 == 1
    if dtype.kind == "O":
        return np.array([f"text {int(value)}" for value in values.ravel()], object).reshape(values.shape)
    return values.astype("int64").astype(dtype) if dtype.kind in "iumM" else values.astype(dtype)


def item_types(rules: Sequence[Rule]) -> list[Any]:
    """Return the types that rules declare for the items of a column of objects."""
    return [rule.holds.item for rule in rules if isinstance(rule.holds, ItemsAre)]


def holds(rule: Rule, array: Any) -> bool:
    """Return True if a rule holds for all values. A rule that raises an error does not hold."""
    try:
        answer = rule.holds(array)
        return bool(answer.all()) if hasattr(answer, "all") else bool(answer)
    except Exception:  # noqa: BLE001  # a rule is the user's own code and may raise anything
        return False


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


def limits(rules: Sequence[Rule]) -> dict[str, float]:
    """Return the limits in the words of rules: ``{">=": 0.0, "<": 2.0}``."""
    found: dict[str, float] = {}
    for rule in rules:
        match = _LIMIT.fullmatch(rule.words)
        try:
            found |= {match[1]: float(match[2])} if match else {}
        except ValueError:  # the limit is not a number, for example an array
            continue
    return found


def _candidates(shape: tuple[int, ...], rules: Sequence[Rule], dtype: str) -> Iterator[NDArray[Any]]:
    count = int(np.prod(shape))
    steps = np.arange(count, dtype=float)
    if dtype == "bool":
        yield np.zeros(shape)
    yield (steps / max(1, count - 1) if "float" in dtype or "complex" in dtype else steps).reshape(shape)
    yield np.zeros(shape)
    known = limits(rules)
    low = known.get(">=", known.get(">", min(0.0, known.get("<=", known.get("<", 0.0)) - 1)))
    high = known.get("<=", known.get("<", low + 2))
    for value in (low, high, (low + high) / 2, low + 1, high - 1, known.get("multiples of", 1.0)):
        yield np.full(shape, value)
    spread = steps / max(1, count - 1) * (high - low) + low
    for values in (spread, steps, steps + low, -steps[::-1]):
        yield values.reshape(shape)
