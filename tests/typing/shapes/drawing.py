"""Random arguments for numpy's and torch's operations: as the tables know them, and as real arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from random import Random
from typing import Any

import numpy as np
import torch

from typedbatch._program.arrays.dtypes import NUMBERS
from typedbatch._program.arrays.sizes import Name, Size, divided_in, named, number
from typedbatch._program.arrays.values import UNKNOWN, Array, Axis, DType, Literal, Many, Scalar, Several, Value

DECLARED = [Name(text, 1, declared=True) for text in "NLK"]
OTHER = Name("p", 2)
N, L, K, P = (named(name) for name in (*DECLARED, OTHER))
SIZES = [N, L, K, N, L, K, P, L - number(1), N * number(2), number(1), number(1), number(2), number(3)]
DTYPES = ["float32"] * 9 + ["float64", "float64", "int64", "int64", "int32", "uint8", "bool", "float16", "complex64"]
FLOATS = ("float32", "float32", "float32", "float64")


class RestError(Exception):
    """A size that is taken to be divisible is not, for the numbers that were drawn."""


@dataclass
class Call:
    """What an operation is called with."""

    given: Sequence[Value]
    named: Mapping[str, Value]


def call(*given: Value, **named: Value) -> Call:
    """A call; an argument that is ... is left out."""
    kept = given[: given.index(...)] if ... in given else given  # type: ignore[arg-type,index]
    return Call(kept, {name: value for name, value in named.items() if value is not ...})


class Draws:
    """Draws arguments.

    Args:
        random: where from.
        torch: for torch.
    """

    def __init__(self, random: Random, torch: bool) -> None:
        self.random = random
        self.torch = torch
        numbers = random.sample([3, 4, 5, 7], 3)  # so that L-1 is not 1, which would broadcast
        self.numbers = {**dict(zip(DECLARED, numbers, strict=True)), OTHER: random.choice([1, 2, 3])}

    def pick(self, *options: Any) -> Any:
        """One of several."""
        return self.random.choice(options)

    def chance(self, part: float) -> bool:
        """Once in a while."""
        return self.random.random() < part

    def size(self) -> Size:
        """Of an axis."""
        return self.pick(*SIZES)

    def axis(self, size: Size | None = None) -> Axis:
        """Some axis."""
        size = size or self.size()
        return Axis(size, asked=size.number == 1 and self.chance(0.5))

    def shape(self, least: int = 0, most: int = 4) -> tuple[Axis, ...]:
        """Some axes."""
        return tuple(self.axis() for _ in range(self.random.randint(least, most)))

    def array(self, axes: Sequence[Axis] | None = None, *dtypes: str, least: int = 0) -> Array:
        """An array."""
        axes = self.shape(least) if axes is None else axes
        return Array(tuple(axes), frozenset({self.pick(*(dtypes or DTYPES))}), self.torch)

    def matrix(self, *sizes: Size, dtypes: Sequence[str] = FLOATS) -> Array:
        """An array of these sizes, or nearly."""
        return self.array(self.near([self.axis(size) for size in sizes]), *dtypes)

    def near(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        """Mostly the same axes; else one is another, a 1, or is not there."""
        out = [*axes]
        if out and self.chance(0.35):
            at = self.random.randrange(len(out))
            change = self.pick("other", "one", "one", "gone", "front", "swap")
            if change == "gone":
                del out[at]
            elif change == "front":
                out.insert(0, self.axis())
            elif change == "swap":
                out[0], out[at] = out[at], out[0]
            else:
                out[at] = self.axis(number(1) if change == "one" else None)
        return tuple(out)

    def like(self, array: Array, *dtypes: str) -> Array:
        """One that may go with another."""
        same = self.chance(0.6) and not dtypes
        found = self.array(self.near(array.axes or ()), *dtypes)
        return replace(found, dtypes=array.dtypes) if same else found

    def place(self, rank: int, more: int = 0) -> Size:
        """Of an axis, mostly of one that is there."""
        top = rank + more
        return number(self.random.randint(-top, top - 1) if top and not self.chance(0.05) else self.pick(-top - 1, top))

    def places(self, rank: int) -> Value:
        """One axis or some."""
        if self.chance(0.7) or not rank:
            return self.place(rank)
        return Several(tuple(map(number, self.random.sample(range(rank), self.random.randint(1, rank)))))

    @property
    def along(self) -> str:
        """The keyword for an axis."""
        return "dim" if self.torch or self.chance(0.02) else "axis"

    @property
    def keep(self) -> str:
        """The keyword for axes that are kept."""
        return "keepdim" if self.torch else "keepdims"

    def maybe(self, value: Value, part: float = 0.5) -> Any:
        """An argument that may be left out."""
        return value if self.chance(part) else ...

    def flag(self) -> Literal:
        """True or False."""
        return Literal(self.chance(0.5))

    def dtype(self) -> Any:
        """``dtype=``, seldom."""
        return self.maybe(DType(frozenset({self.pick(*DTYPES)})), 0.15)

    # ---- what the tables are told ----------------------------------------------------------------------------------

    def blurred(self, value: Value) -> Value:
        """The same, with less known of it."""
        if self.chance(0.02):
            return None
        if isinstance(value, Several):
            return replace(value, items=tuple(map(self.blurred, value.items)))
        if isinstance(value, Many):
            return replace(value, item=self.blurred(value.item))
        if isinstance(value, Literal) and isinstance(value.value, (bool, float)) and self.chance(0.2):
            return Scalar()
        if isinstance(value, Size) and (value.number or 0) > 0 and self.chance(0.1):
            return self.variable(value)
        if isinstance(value, Array) and self.chance(0.5):
            axes = None if self.chance(0.05) else [UNKNOWN if self.chance(0.15) else axis for axis in value.axes or ()]
            dtypes = self.pick(value.dtypes, value.dtypes, None, NUMBERS | {"bool"})
            return value.shaped(axes).typed(dtypes)
        return value

    def variable(self, size: Size) -> Size:
        """A number that has a name."""
        name = Name(f"n{len(self.numbers)}", 3)
        self.numbers[name] = self.count(size)
        return named(name)

    # ---- what is real ----------------------------------------------------------------------------------------------

    def count(self, size: Size) -> int:
        """A size as a number.

        Raises:
            RestError: It is a part of another one that cannot be divided so.
        """
        return sum(times * prod(map(self._number, product)) for product, times in size.terms)

    def _number(self, name: Name) -> int:
        divided = divided_in(name)
        if divided is None:
            return self.numbers[name]
        whole, by, exact = self.count(divided[0]), self.count(divided[1]), divided[2]
        if exact and whole % by:
            raise RestError
        return whole // by

    def real(self, value: Value) -> Any:
        """What is passed to numpy or torch."""
        if isinstance(value, Size):
            return self.count(value)
        if isinstance(value, Literal):
            return value.value
        if isinstance(value, Several):
            return [*map(self.real, value.items)] if value.listed else tuple(map(self.real, value.items))
        if isinstance(value, Many):
            count = self.pick(1, 2, 3) if value.count is None else self.count(value.count)
            return [self.real(value.item) for _ in range(count)]
        if isinstance(value, DType):
            (name,) = value.dtypes
            return getattr(torch if self.torch else np, name if self.torch or name != "bool" else "bool_")
        assert isinstance(value, Array)
        return self.real_array(value)

    def real_array(self, array: Array) -> Any:
        """Zeros for what may be places, true masks, halves."""
        assert array.axes is not None
        assert array.dtypes is not None
        (name,) = array.dtypes
        shape = [self.count(axis.size) for axis in array.axes if axis.size is not None]
        fill = True if name == "bool" else 0 if "int" in name else 0.5
        if array.torch:
            return torch.full(shape, fill, dtype=getattr(torch, name))
        return np.full(shape, fill, dtype=name)


Draw = Callable[[Draws], Call]
