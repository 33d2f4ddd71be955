"""How ``explain`` walks: generators on a stack of their own, so that no depth of nesting is too much.

A generator yields a problem, the walk of a nested batch, or an ``Attempt``: a walk that is given up at its first
problem, as an alternative of a union is. What was found out about dimensions is then forgotten again.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable
from dataclasses import dataclass
from typing import Any

from typedbatch.errors import Problem
from typedbatch.schema.blame import Size, Votes
from typedbatch.schema.dims import Several
from typedbatch.schema.fields import Option
from typedbatch.schema.names import Path

_ABSENT = object()


@dataclass(slots=True)
class Attempt:
    """A walk that is to find nothing; the generator that yields it is told the problem that it found, or None."""

    walk: Walk


Walk = Generator["Problem | Attempt | Walk", Any, None]
Judgement = Generator["Problem | Attempt | Walk", Any, bool]
"""A walk that is part of another, and answers."""
Reading = Generator["Problem | Attempt | Walk", Any, Any]
"""A walk that is part of another, and gives a value."""


class Known:
    """What the walk has found out about dimensions, with a way back out of alternatives that did not fit."""

    def __init__(self) -> None:
        self.sizes: dict[str, Size] = {}
        """The size that each dimension had first: an alternative of a union must fit these."""
        self.votes: dict[tuple[str, Path], Size | None] = {}
        """The size of each dimension at each path; None in an array that has two. Who is to blame shows at the end."""
        self.several: dict[str, Several] = {}
        self.done: dict[tuple[int, int], bool] = {}
        self.choices: dict[tuple[int, int], Option] = {}
        """The alternative of a union that a value is, by the ids of value and field."""
        self.trying = 0
        """How many attempts this is inside of."""
        self.undo: list[tuple[dict[Any, Any], Any, Any]] = []

    def set(self, mapping: dict[Any, Any], key: Any, value: Any) -> None:
        """Note something; inside an attempt, so that it can be forgotten."""
        if self.trying:
            self.undo.append((mapping, key, mapping.get(key, _ABSENT)))
        mapping[key] = value

    def back_to(self, mark: int) -> None:
        """Forget what was noted since ``undo`` had that length."""
        while len(self.undo) > mark:
            mapping, key, value = self.undo.pop()
            if value is _ABSENT:
                del mapping[key]
            else:
                mapping[key] = value

    def state(self) -> Hashable:
        """The sizes as they are now, to compare with later."""
        return tuple(self.sizes.items()), tuple(self.several.items())

    def disputed(self, names: tuple[str, ...]) -> bool:
        """True if fields disagree on one of the dimensions."""
        return any(name in names and size != self.sizes[name] for (name, _), size in self.votes.items())

    def by_name(self) -> Votes:
        """The votes, dimension by dimension."""
        votes: Votes = {}
        for (name, path), size in self.votes.items():
            if size is not None:
                votes.setdefault(name, {})[path] = size
        return votes


def problems_of(walk: Walk, known: Known) -> list[Problem]:
    """Go the whole walk; what it found."""
    problems: list[Problem] = []
    stack: list[tuple[Walk, bool]] = [(walk, False)]
    answer: Problem | None = None
    error: Exception | None = None
    while stack:
        walk, trying = stack[-1]
        try:
            item = walk.send(answer) if error is None else walk.throw(error)
            answer = error = None
        except StopIteration:
            answer = error = None
        except Exception as raised:  # noqa: BLE001  # a value may raise anything; it is told to the walk that asked
            error = raised
        else:
            if not isinstance(item, Problem):
                attempt = isinstance(item, Attempt)
                stack.append((item.walk, True) if isinstance(item, Attempt) else (item, False))
                known.trying += attempt
            elif known.trying:
                _give_up(stack)
                known.trying -= 1
                answer = item
            else:
                problems.append(item)
            continue
        stack.pop()
        known.trying -= trying
    if error is not None:
        raise error
    return problems


def _give_up(stack: list[tuple[Walk, bool]]) -> None:
    """Leave the innermost attempt."""
    trying = False
    while not trying:
        walk, trying = stack.pop()
        walk.close()
