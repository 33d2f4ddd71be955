"""Sizes for the dimensions of a schema, where a name has the same size in the whole batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from typedbatch._core.lengths import require_at_least
from typedbatch.errors import NoSizeError, SettingError, SizeError, did_you_mean
from typedbatch.schema.dims import ROWS, Dim, Shape, Sort, compute
from typedbatch.schema.fields import Schema

Size: TypeAlias = "int | tuple[int, ...]"


def known_sizes(schema: Schema, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes as a dict, or raise a SettingError if the schema lacks one of these dimensions."""
    known: dict[str, None] = {}
    for dim in (dim for option in schema.every_option() for dim in option.shape.dims):
        if dim.sort in (Sort.NAMED, Sort.SOME):
            known[dim.text] = None
        elif dim.sort is Sort.COMPUTED:
            known.update(dict.fromkeys(dim.names))
    for name in sizes:
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has no named dimensions"
            raise SettingError(f"{schema.name} has no dimension {name!r}; {has}{did_you_mean(name, list(known))}")
    return dict(sizes)


class Sizes:
    """The sizes of names, each of which is determined when it is first needed.

    Args:
        given: Sizes that are known already.
        one: Function that returns the size of a name. For ``"_"`` it is called at each use.
        several: Function that returns the sizes of a name such as ``*obs``. For ``""``, which stands for ``...``, it
            is called at each use.
    """

    def __init__(
        self, given: Mapping[str, Size], one: Callable[[str], int], several: Callable[[str], tuple[int, ...]]
    ) -> None:
        self._given = given
        self._known: dict[str, Size] = dict(given)
        self._one = one
        self._several = several

    def within(self, rows: Mapping[str, int]) -> Sizes:
        """Return the sizes for the values of a Ragged: those in ``rows`` and those given, but no others determined yet.

        The given number of rows does not apply there either.
        """
        given = {name: size for name, size in self._given.items() if name != ROWS}
        return Sizes({**given, **rows}, self._one, self._several)

    def shape(self, shape: Shape) -> tuple[int, ...]:
        """Return the sizes of a shape."""
        sizes: list[int] = []
        for dim in shape.dims:
            sizes += self._sizes(dim)
        return tuple(sizes)

    def _sizes(self, dim: Dim) -> tuple[int, ...]:
        if dim.sort is Sort.FIXED:
            return (dim.size,)
        if dim.sort is Sort.ANY:
            return (self._one("_"),)
        if dim.sort is Sort.REST:
            return self._several("")
        if dim.sort is Sort.SOME:
            return self._many(dim.text)
        return (self._named(dim.text) if dim.sort is Sort.NAMED else self._computed(dim),)

    def _named(self, name: str) -> int:
        if name not in self._known:
            self._known[name] = self._one(name)
        found = self._known[name]
        try:
            return require_at_least(0, found, name)
        except SizeError:
            raise SettingError(f"the size of {name!r} must be a whole number >= 0, got {found!r}") from None

    def _many(self, name: str) -> tuple[int, ...]:
        if name not in self._known:
            self._known[name] = self._several(name)
        found = self._known[name]
        if not isinstance(found, tuple) or not all(type(size) is int and size >= 0 for size in found):
            raise SettingError(f"the sizes of {name!r} must be a tuple of whole numbers >= 0, got {found!r}")
        return found

    def _computed(self, dim: Dim) -> int:
        value = compute(dim.text, {name: self._named(name) for name in dim.names})
        if value is None or value < 0 or value != int(value):
            known = ", ".join(f"{name}={self._named(name)}" for name in dim.names)
            raise NoSizeError(f"the dimension {dim.text!r} has no valid size for {known}; pass other sizes")
        return int(value)
