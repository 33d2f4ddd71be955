"""Makes the package of a false report small, for people to read.

Statements are taken away as long as mypy reports the line, and it does not fail. The line is marked by the end of its
comment.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tests.typing.plugin.combinations import Facts, IllegalError, Spot, TooLongError, facts_of
from tests.typing.plugin.writer import MODULES, Package

MARK = "  # here"
_MOST_ROUNDS = 20
_TOGETHER = 40
Body: TypeAlias = list[ast.stmt]


def marked(package: Package, spot: Spot) -> Package:
    """Return the package with a mark at a line."""
    module, number = spot
    lines = package.modules[module].splitlines()
    lines[number - 1] = lines[number - 1].partition("  # ")[0] + MARK
    return replace(package, modules={**package.modules, module: "\n".join(lines) + "\n"})


def marked_spot(package: Package) -> Spot | None:
    """Return where the mark is."""
    for module, text in package.modules.items():
        for number, line in enumerate(text.splitlines(), 1):
            if line.endswith(MARK):
                return module, number
    return None


@dataclass(frozen=True)
class Cut:
    """A statement of a package that can be taken away, or give way to what is in its body."""

    module: str
    first: int
    last: int
    unwrapped: tuple[int, int] | None = None


def without(package: Package, cuts: Iterable[Cut]) -> Package:
    """Return the package without some of its statements."""
    texts = {name: text.splitlines() for name, text in package.modules.items()}
    for cut in sorted(cuts, key=lambda cut: -cut.first):
        lines = texts[cut.module]
        first = lines[cut.first - 1]
        inner = [" " * (len(first) - len(first.lstrip())) + "pass"]
        if cut.unwrapped is not None:
            inner = [line[4:] for line in lines[cut.unwrapped[0] - 1 : cut.unwrapped[1]]]
        lines[cut.first - 1 : cut.last] = inner
    return _without_passes(replace(package, modules={name: "\n".join(lines) + "\n" for name, lines in texts.items()}))


def _without_passes(package: Package) -> Package:
    """Return the package without the statements ``pass`` that have others beside them."""
    texts = {}
    for name, text in package.modules.items():
        lines = text.splitlines()
        for body in _bodies(text):
            passes = [statement.lineno for statement in body if isinstance(statement, ast.Pass)]
            for number in passes[len(passes) == len(body) and not isinstance(body, _Whole) :]:
                lines[number - 1] = ""
        texts[name] = "\n".join(line for line in lines if line.strip()) + "\n"
    return replace(package, modules=texts)


class _Whole(list[ast.stmt]):
    """The body of a module, which may be empty."""


def _bodies(text: str) -> Iterator[Body]:
    tree = ast.parse(text)
    yield _Whole(tree.body)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module):
            continue
        for part in ("body", "orelse", "finalbody"):
            found = getattr(node, part, None)
            if isinstance(found, list) and found:
                yield found


def cuts_of(package: Package) -> Iterator[Cut]:
    """Yield what can be taken away, outer statements first."""
    spot = marked_spot(package)
    for module, text in package.modules.items():
        for body in _bodies(text):
            for node in body:
                first = min([node.lineno, *(part.lineno for part in getattr(node, "decorator_list", []))])
                last = node.end_lineno or node.lineno
                inside = spot is not None and spot[0] == module and first <= spot[1] <= last
                if not inside and not isinstance(node, ast.Pass):
                    yield Cut(module, first, last)
                if isinstance(node, (ast.If, ast.For, ast.While, ast.With, ast.Try)):
                    yield Cut(module, first, last, (node.body[0].lineno, node.body[-1].end_lineno or 0))


def is_right(package: Package) -> Facts | None:
    """Return what happens in the package if runs come to the marked line, and it does not fail."""
    spot = marked_spot(package)
    try:
        facts = facts_of(package)
    except (IllegalError, TooLongError, SyntaxError):
        return None
    return facts if spot in facts.fine | facts.asked and spot not in facts.failed else None


def proposals(package: Package) -> Iterator[Package]:
    """Yield smaller packages in which the marked line does not fail, each with one or more statements less."""
    single = [cut for cut in cuts_of(package) if is_right(without(package, [cut])) is not None]
    yield from (without(package, [cut]) for cut in single)
    for share in _shares([cut for cut in single if cut.unwrapped is None]):
        if is_right(smaller := without(package, share)) is not None:
            yield smaller


def _shares(cuts: Sequence[Cut]) -> Iterator[list[Cut]]:
    """Yield all cuts, each half, each quarter and so on; of nested ones the outer alone."""
    outer = [cut for cut in cuts if not any(_is_in(cut, other) for other in cuts)]
    size = len(outer)
    while size > 1:
        yield from (outer[start : start + size] for start in range(0, len(outer), size))
        size = (size + 1) // 2 if size > 3 else 1


def _is_in(cut: Cut, other: Cut) -> bool:
    return cut != other and cut.module == other.module and other.first <= cut.first and cut.last <= other.last


def size(package: Package) -> int:
    """Return the length of a package's texts."""
    return sum(len(package.modules[name]) for name in MODULES)


def renamed(package: Package, name: str) -> Package:
    """Return the package with another name."""
    word = re.compile(rf"\b{package.name}\b")
    return Package(name, {module: word.sub(name, text) for module, text in package.modules.items()})


def reduced(package: Package, spot: Spot, reported: Callable[[list[Package]], set[str]]) -> Package:
    """Return a small package in which a line is reported and does not fail, beginning with one that is large.

    ``reported`` returns the names of those packages whose marked line is reported.
    """
    package = marked(package, spot)
    for _ in range(_MOST_ROUNDS):
        smaller = _smaller(package, reported)
        if smaller is None:
            break
        package = smaller
    return package


def _smaller(package: Package, reported: Callable[[list[Package]], set[str]]) -> Package | None:
    options = sorted((one for one in proposals(package) if size(one) < size(package)), key=size)
    for start in range(0, len(options), _TOGETHER):
        some = [renamed(one, f"p{number:04}") for number, one in enumerate(options[start : start + _TOGETHER])]
        names = reported(some)
        found = [one for one in some if one.name in names]
        if found:
            return found[0]
    return None
