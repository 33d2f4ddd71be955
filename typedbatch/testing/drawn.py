"""Sizes and values drawn by hypothesis. No other module of this package imports hypothesis."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from hypothesis import reject
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from typedbatch._ops.conversion import torch_side
from typedbatch._validation.validate import validate_at
from typedbatch.errors import NoSizeError
from typedbatch.rules import Rule
from typedbatch.schema import schema_of
from typedbatch.schema.dims import ROWS
from typedbatch.schema.violations import find_violations
from typedbatch.testing.build import build
from typedbatch.testing.fixed import holds, item_types, limits
from typedbatch.testing.sizes import Sizes, known_sizes

_TRIES = 20


def strategy(schema: Any, fields: Mapping[str, Any], sizes: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Return the strategy of :func:`typedbatch.testing.batches`."""
    declared = schema_of(schema)
    known_sizes(declared, sizes)

    @st.composite
    def batches(draw: st.DrawFn) -> Any:
        given = {name: draw(size) if isinstance(size, st.SearchStrategy) else size for name, size in sizes.items()}
        for _ in range(_TRIES):
            try:
                batch = validate_at(build(declared, _Drawn(draw, given), fields), schema, "batches()", "structure")
            except NoSizeError:
                break
            if not find_violations(batch, declared):
                return batch
        return reject()

    return batches()


class _Drawn:
    """The source of sizes and values for :func:`strategy`."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], sizes: Mapping[str, Any]) -> None:
        self._draw = draw
        self.sizes: Sizes = Sizes(
            sizes,
            lambda name: draw(st.integers(0, 5) if name == ROWS else st.integers(1, 3)),
            lambda name: tuple(draw(st.lists(st.integers(1, 3), max_size=2))),
        )

    def lengths(self, count: int) -> list[int]:
        """Return lengths from 0 to 3."""
        lengths: list[int] = self._draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
        return lengths

    def choose(self, choices: Sequence[Any]) -> Any:
        """Return any of the choices."""
        return self._draw(st.sampled_from(list(choices)))

    def given(self, value: Any) -> Any:
        """Draw from a strategy, or return any other value unchanged."""
        return self._draw(value) if isinstance(value, st.SearchStrategy) else value

    def array(self, name: str, dtypes: Sequence[Any], shape: tuple[int, ...], rules: Sequence[Rule]) -> Any:
        """Return an array of any of these dtypes, whose values follow the rules."""
        dtype = self.choose(dtypes)
        is_tensor = not isinstance(dtype, np.dtype)
        # numpy has no bfloat16
        plain = np.dtype(str(dtype).removeprefix("torch.").replace("bfloat16", "float16")) if is_tensor else dtype
        for _ in range(_TRIES):
            values = self._draw(npst.arrays(plain, shape, elements=_elements(plain, rules)))
            if any(rule.words.startswith("in ascending order") for rule in rules):
                values = np.sort(values, axis=0)
            array = torch_side().torch.from_numpy(values).to(dtype) if is_tensor else values
            if all(holds(rule, array) for rule in rules):
                return array
        return reject()


def _elements(dtype: np.dtype[Any], rules: Sequence[Rule]) -> st.SearchStrategy[Any]:
    known = limits(rules)
    low, high = (known.get(closed, known.get(opened)) for closed, opened in ((">=", ">"), ("<=", "<")))
    low, high = (None if limit is None or np.isnan(limit) else limit for limit in (low, high))
    if dtype.kind == "O":
        items = item_types(rules)
        return st.from_type(items[0]) if items else st.none() | st.text(max_size=3)
    if dtype.kind in "iu":
        least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
        bounds = int(max(least, least if low is None else np.ceil(low))), int(min(most, most if high is None else high))
        return st.integers(*bounds) if bounds[0] <= bounds[1] else st.nothing()
    if dtype.kind == "f" and dtype.itemsize <= 8:
        first, last = _inward(low, dtype, np.inf), _inward(high, dtype, -np.inf)
        if first is not None and last is not None and first > last:
            return st.nothing()
        width: Any = 8 * dtype.itemsize
        return st.floats(first, last, allow_nan=False, allow_infinity=False, width=width)
    finite: dict[str, Any] = {"allow_nan": False, "allow_infinity": False} if dtype.kind in "bc" else {}
    return npst.from_dtype(dtype, **finite)


def _inward(limit: float | None, dtype: np.dtype[Any], towards: float) -> float | None:
    """Round a limit to a number of the dtype, towards ``towards``, and clip it to the finite numbers of the dtype."""
    if limit is None:
        return None
    most = float(np.finfo(dtype).max)
    rounded = dtype.type(min(max(limit, -most), most))
    past = rounded < limit if towards > 0 else rounded > limit
    return float(np.nextafter(rounded, dtype.type(towards)) if past and abs(limit) < most else rounded)
