"""Sizes of axes: whole polynomials of names, ``L-1``, ``2*N``, ``P+R``, and what is certain about two of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

_scopes = count(1)


def new_scope() -> int:
    """A scope of names, which no other one has: of a function, a batch, a call."""
    return next(_scopes)


class Name(NamedTuple):
    """A size that was given a name.

    Attributes:
        text: the name, as people write it.
        scope: whose name it is; those of others are other sizes.
        declared: it stands beside others in a declaration, so two of them are meant to be two sizes.
        opaque: it is any whole number, or was computed in a way that is not followed, ``N // 2``: nothing is known of
            it but that it is itself.
    """

    text: str
    scope: int
    declared: bool = False
    opaque: bool = False


Monomial = tuple[Name, ...]


@dataclass(frozen=True, slots=True)
class Size:
    """A polynomial of names with whole coefficients.

    Attributes:
        terms: products of names, sorted, and their coefficients, none of them 0; the empty product is the constant.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @property
    def number(self) -> int | None:
        """The size, where it is a number."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def name(self) -> Name | None:
        """The name, where it is just that."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    def names(self) -> set[Name]:
        """Every name in it."""
        return {name for product, _ in self.terms for name in product}

    def __add__(self, other: Size) -> Size:
        return _sum([*self.terms, *other.terms])

    def __neg__(self) -> Size:
        return Size(tuple((product, -times) for product, times in self.terms))

    def __sub__(self, other: Size) -> Size:
        return self + -other

    def __mul__(self, other: Size) -> Size:
        return _sum((tuple(sorted(one + two)), times * more) for one, times in self.terms for two, more in other.terms)

    def __floordiv__(self, other: Size) -> Size:
        """Exact where it can be told to be; else a size of its own, the same each time."""
        exact = self.divided(other)
        return exact if exact is not None else _opaque("//", self, other)

    def __mod__(self, other: Size) -> Size:
        return number(0) if self.divided(other) is not None else _opaque("%", self, other)

    def divided(self, other: Size) -> Size | None:
        """The quotient; None if there may be a rest, or it cannot be told."""
        if len(other.terms) != 1:
            return number(1) if self == other and self.terms else None
        (by, times), out = other.terms[0], []
        for product, coefficient in self.terms:
            rest = list(product)
            for name in by:
                if name not in rest:
                    return None
                rest.remove(name)
            if coefficient % times:
                return None
            out.append((tuple(rest), coefficient // times))
        return _sum(out)

    def replaced(self, sizes: Mapping[Name, Size | None]) -> Size | None:
        """With sizes for names; None if one of them is not known."""
        out = number(0)
        for product, times in self.terms:
            term = number(times)
            for name in product:
                size = sizes.get(name, named(name))
                if size is None:
                    return None
                term = term * size
            out = out + term
        return out

    def __str__(self) -> str:
        shown = ""
        for product, times in sorted(self.terms, key=lambda term: (not term[0], -term[1])):
            words = [name.text for name in product]
            if abs(times) != 1 or not words:
                words.insert(0, str(abs(times)))
            sign = "-" if times < 0 else "+" if shown else ""
            shown += sign + "*".join(words)
        return shown or "0"


def number(value: int) -> Size:
    """A size that is a number."""
    return Size((((), value),) if value else ())


def named(name: Name) -> Size:
    """A size that has a name."""
    return Size((((name,), 1),))


def differ(one: Size, other: Size) -> bool:
    """Is it certain that two sizes are not the same, where each name is 1 or more."""
    if one == other:
        return False
    gap = one - other
    if not any(gap.names()):
        return True
    if any(name.opaque for name in gap.names()):
        return False
    signs = {times > 0 for _, times in gap.terms}
    if len(signs) == 1:
        return True
    a, b = one.name, other.name
    return a is not None and b is not None and a.declared and b.declared and a.scope == b.scope


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Size:
    total: dict[Monomial, int] = {}
    for product, times in terms:
        total[product] = total.get(product, 0) + times
    return Size(tuple(sorted((product, times) for product, times in total.items() if times)))


def _opaque(sign: str, one: Size, other: Size) -> Size:
    scope = hash((sign, one, other)) | 1 << 62  # the same for the same two sizes
    shown = [f"({size})" if len(size.terms) > 1 else str(size) for size in (one, other)]
    return named(Name(sign.join(shown), scope, opaque=True))
