"""Sizes of axes: polynomials of names with whole coefficients, ``2*N``; and numbers of axes of runs, ``*b``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class Ranks:
    """The numbers of axes of the runs in declared shapes.

    Args:
        axes: The number of each.
        without: Text of a run that may be empty and is, whatever function or batch it belongs to.
    """

    def __init__(self, axes: int = 1, without: str = "") -> None:
        self._axes = axes
        self._without = without
        self._met: dict[str, bool] = {}

    def count(self, run: str, *, may_be_empty: bool = False) -> int:
        """Return the number of axes of a run.

        Args:
            run: Text of the run.
            may_be_empty: Whether it may well have no axes.
        """
        self._met.setdefault(run, may_be_empty)
        axes = 0 if run == self._without else self._axes
        return axes if axes or may_be_empty else 1

    def of_all(self) -> Iterator[Ranks]:
        """Yield other numbers of axes: the same for all runs, and none for those of one text that may be empty.

        Which texts there are is asked of the last of the former, which may be those of a part of the program.
        """
        last = self
        for axes in (2, 3, 0) if self._met else ():
            last = Ranks(axes)
            yield last
        texts = sorted(text for text, may_be_empty in last._met.items() if may_be_empty)
        yield from (Ranks(without=text) for text in texts if len(texts) > 1)


class Name(NamedTuple):
    """A size that has a name.

    Attributes:
        text: The name.
        scope: Scope of the name; the same text in another scope is another size.
        declared: Whether it is from a declaration, where two names are meant to be two sizes.
        opaque: Whether it is any whole number, or a result that is not computed, as ``N // 2``: it equals itself, and
            nothing else is known of it.
    """

    text: str
    scope: int
    declared: bool = False
    opaque: bool = False


Monomial = tuple[Name, ...]


class _Quotient(NamedTuple):
    """A quotient of two sizes.

    Attributes:
        of: Dividend.
        by: Divisor.
        exact: Whether the division has no remainder.
    """

    of: Size
    by: Size
    exact: bool


_quotients: dict[Name, _Quotient] = {}
_MOST_QUOTIENTS = 10_000


def forget_quotients() -> None:
    """Forget the quotients of other runs once there are many, so that a process which runs programs does not grow."""
    if len(_quotients) > _MOST_QUOTIENTS:
        _quotients.clear()


@dataclass(frozen=True, slots=True)
class Size:
    """A polynomial of names with whole coefficients.

    Attributes:
        terms: Sorted products of names with their coefficients, which are not 0; the empty product is the constant.
    """

    terms: tuple[tuple[Monomial, int], ...]

    @property
    def number(self) -> int | None:
        """The number, if the size is a constant."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def name(self) -> Name | None:
        """The name, if the size is a name and nothing else."""
        if len(self.terms) == 1 and self.terms[0][1] == 1 and len(self.terms[0][0]) == 1:
            return self.terms[0][0][0]
        return None

    def names(self) -> set[Name]:
        """Return the names in it."""
        return {name for product, _ in self.terms for name in product}

    def __add__(self, other: Size) -> Size:
        return _sum([*self.terms, *other.terms])

    def __neg__(self) -> Size:
        return Size(tuple((product, -times) for product, times in self.terms))

    def __sub__(self, other: Size) -> Size:
        return self + -other

    def __mul__(self, other: Size) -> Size:
        out = _sum((tuple(sorted(one + two)), times * more) for one, times in self.terms for two, more in other.terms)
        return out if _quotients.keys().isdisjoint(out.names()) else _without_quotients(out)

    def __floordiv__(self, other: Size) -> Size:
        """Return the exact quotient if it is known, or by a name, as ``D // n_heads``; otherwise a new size."""
        exact = self.divided(other)
        if exact is None and other.name is not None:
            return self.over(other)
        return exact if exact is not None else _quotient("//", self, other, exact=False)

    def over(self, other: Size) -> Size:
        """Return the quotient by a size that divides it without remainder."""
        exact = self.divided(other)
        return exact if exact is not None else _quotient("/", self, other, exact=True)

    def __mod__(self, other: Size) -> Size:
        return number(0) if self.divided(other) is not None else _opaque("%", self, other)

    def divided(self, other: Size) -> Size | None:
        """Return the quotient, or None if there may be a remainder."""
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
        """Return the size with sizes in place of names, or None if one of these is not known."""
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
    """Return a size that is a number."""
    return Size((((), value),) if value else ())


def named(name: Name) -> Size:
    """Return a size that has a name."""
    return Size((((name,), 1),))


def divided_in(name: Name) -> tuple[Size, Size, bool] | None:
    """Return dividend and divisor of a quotient, and whether the division is exact; None for any other size."""
    found = _quotients.get(name)
    return None if found is None else (found.of, found.by, found.exact)


def differ(one: Size, other: Size) -> bool:
    """Return whether two sizes certainly differ, if each name is 1 or more."""
    if one == other:
        return False
    gap = _in_quotients(one - other)
    for name in gap.names():
        quotient = _quotients.get(name)
        if quotient is not None and not quotient.exact:
            return _differs_with_any_rest(gap, name, quotient)
    if not any(gap.names()):
        return bool(gap.terms)
    if any(name.opaque for name in gap.names()):
        return False
    if len({times > 0 for _, times in gap.terms}) == 1:
        # What is added to a number may be 0, as features that a layer has besides others; a declared size is not.
        return not (one.number or other.number) or all(name.declared for name in gap.names())
    a, b = one.name, other.name
    return a is not None and b is not None and a.declared and b.declared and a.scope == b.scope


def _in_quotients(gap: Size) -> Size:
    """Write each dividend as its quotient times the divisor."""
    for name in sorted(gap.names()):
        quotient = _quotients.get(name)
        whole = quotient.of.name if quotient is not None and quotient.exact else None
        if quotient is not None and whole is not None:
            gap = _plainly(
                gap, whole, [(tuple(sorted((name, *product))), times) for product, times in quotient.by.terms]
            )
    return gap


def _differs_with_any_rest(gap: Size, name: Name, quotient: _Quotient) -> bool:
    """Return whether two sizes differ for each remainder that a division by a small number may have."""
    whole, by = quotient.of.name, quotient.by.number
    if whole is None or by is None or not 1 < by <= 8:
        return False
    for rest in range(by):
        left = _plainly(gap, whole, [((name,), by), ((), rest)])
        signs = {times > 0 for _, times in left.terms}
        some = [product for product, _ in left.terms if not rest or name not in product]
        if len(signs) != 1 or not some or any(one.opaque for one in left.names() - {name}):
            return False
    return True


def _sum(terms: Iterable[tuple[Monomial, int]]) -> Size:
    total: dict[Monomial, int] = {}
    for product, times in terms:
        total[product] = total.get(product, 0) + times
    return Size(tuple(sorted((product, times) for product, times in total.items() if times)))


def _plainly(size: Size, name: Name, instead: list[tuple[Monomial, int]]) -> Size:
    """Replace a name by a sum of products."""
    terms = list(size.terms)
    while any(name in product for product, _ in terms):
        found: list[tuple[Monomial, int]] = []
        for product, times in terms:
            if name not in product:
                found.append((product, times))
                continue
            rest = list(product)
            rest.remove(name)
            found += [(tuple(sorted((*rest, *other))), times * more) for other, more in instead]
        terms = found
    return _sum(terms)


def _without_quotients(size: Size) -> Size:
    """Multiply quotients by their divisors: ``n_heads * (D // n_heads)`` is D."""
    out: list[tuple[Monomial, int]] = []
    for product, times in size.terms:
        out += _multiplied_out(product, times)
    return _sum(out)


def _multiplied_out(product: Monomial, times: int) -> list[tuple[Monomial, int]]:
    for name in product:
        quotient = _quotients.get(name)
        if quotient is None or not quotient.exact or len(quotient.by.terms) != 1:
            continue
        by, factor = quotient.by.terms[0]
        rest = list(product)
        rest.remove(name)
        if times % factor or any(by.count(one) > rest.count(one) for one in by):
            continue
        for one in by:
            rest.remove(one)
        whole = Size(((tuple(rest), times // factor),)) * quotient.of
        return list(whole.terms)
    return [(product, times)]


def _quotient(sign: str, one: Size, other: Size, *, exact: bool) -> Size:
    out = _opaque(sign, one, other)
    name = out.name
    assert name is not None
    if exact:
        name = name._replace(text=name.text.replace("/", "//", 1), opaque=False)
    _quotients[name] = _Quotient(one, other, exact)
    return named(name)


def _opaque(sign: str, one: Size, other: Size) -> Size:
    scope = hash((sign, one, other)) | 1 << 62  # Equal for the same two sizes.
    shown = [f"({size})" if len(size.terms) > 1 else str(size) for size in (one, other)]
    return named(Name(sign.join(shown), scope, opaque=True))
