"""Random batches: nested, with leaves of every kind, all with the same number of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray
from torch.distributions import Beta, Categorical, Distribution, Independent, Normal

from typedbatch import Batch

# method names, dunders and odd strings on purpose: any string is a field name
NAMES = st.sampled_from(
    ["obs", "act", "rew", "a.b", "items", "keys", "split", "shape", "0", "", "é", "copy", "__len__"]
)
DTYPES = ["bool", "int8", "int64", "uint8", "float16", "float32", "float64", "complex64"]
TENSOR_DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float32, torch.float64, torch.bfloat16]


def shapes(rows: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes with ``rows`` first and up to two more dimensions."""
    return st.lists(st.integers(0, 3), max_size=2).map(lambda rest: (rows, *rest))


@st.composite
def arrays(draw: st.DrawFn, rows: int, dtypes: tuple[str, ...] = (*DTYPES, "datetime64[s]")) -> NDArray[Any]:
    """A numeric or datetime array without NaN."""
    dtype = np.dtype(draw(st.sampled_from(dtypes)))
    kwargs = {} if dtype.kind == "M" else {"elements": npst.from_dtype(dtype, allow_nan=False, allow_infinity=False)}
    if dtype.kind == "M":
        return draw(npst.arrays("int32", draw(shapes(rows)))).astype("int64").view("int64").astype(dtype)
    return draw(npst.arrays(dtype, draw(shapes(rows)), **kwargs))


@st.composite
def object_arrays(draw: st.DrawFn, rows: int) -> NDArray[Any]:
    """A 1-d array of texts, numbers, ``None`` and sets."""
    elements = st.none() | st.text(max_size=3) | st.integers() | st.frozensets(st.integers(), max_size=2)
    array = np.empty(rows, object)
    for i in range(rows):
        array[i] = draw(elements)
    return array


@st.composite
def tensors(draw: st.DrawFn, rows: int, dtypes: tuple[torch.dtype, ...] = tuple(TENSOR_DTYPES)) -> torch.Tensor:
    """A tensor without NaN."""
    dtype = draw(st.sampled_from(dtypes))
    return torch.from_numpy(draw(npst.arrays("int16", draw(shapes(rows)), elements=st.integers(0, 99)))).to(dtype)


@st.composite
def distributions(draw: st.DrawFn, rows: int) -> Distribution:
    """A distribution whose batch dimension is the rows."""
    base = torch.from_numpy(draw(npst.arrays("float32", (rows, 3), elements=st.floats(0.125, 4, width=32))))
    kind = draw(st.sampled_from(["categorical", "normal", "independent", "beta"]))
    if kind == "categorical":
        return Categorical(probs=base)
    if kind == "normal":
        return Normal(base[:, 0], base[:, 1])
    if kind == "beta":
        return Beta(base[:, 0], base[:, 1])
    return Independent(Normal(base, base), 1)


def leaves(rows: int) -> st.SearchStrategy[Any]:
    """A leaf of any kind."""
    with_rows = arrays(rows) | object_arrays(rows) | tensors(rows) | (distributions(rows) if rows else arrays(rows))
    return with_rows | st.none() | st.builds(Batch)


def trees(leaf: st.SearchStrategy[Any], min_size: int = 0) -> st.SearchStrategy[Batch]:
    """Batches of such leaves, up to three levels deep."""

    def grow(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Batch]:
        return st.dictionaries(NAMES, children, min_size=min_size, max_size=4).map(Batch)

    return grow(st.recursive(leaf, grow, max_leaves=6))


@st.composite
def batches(draw: st.DrawFn, min_rows: int = 0, max_rows: int = 5) -> Batch:
    """A batch with leaves of every kind and at least one field that has rows."""
    rows = draw(st.integers(min_rows, max_rows))
    batch = draw(trees(leaves(rows)))
    batch["anchor"] = np.arange(rows)
    return batch


@st.composite
def numpy_batches(draw: st.DrawFn, min_rows: int = 0, dtypes: tuple[str, ...] = tuple(DTYPES)) -> Batch:
    """A batch with numeric arrays only."""
    rows = draw(st.integers(min_rows, 5))
    batch = draw(trees(arrays(rows, dtypes), min_size=1))
    batch["anchor"] = np.arange(rows)
    return batch


def row_indices(rows: int) -> st.SearchStrategy[Any]:
    """Everything that selects rows: int, slice, list, mask, array, tensor, ``...``, ``None``."""
    masks = npst.arrays(bool, rows)
    wholes = [
        st.slices(rows), masks, masks.map(torch.from_numpy), masks.map(np.ndarray.tolist), st.just(...), st.none(),
    ]  # fmt: skip
    if rows:
        ints = st.integers(-rows, rows - 1)
        lists = st.lists(ints, max_size=6)
        wholes += [ints, ints.map(np.int32), lists, lists.map(lambda i: np.array(i, np.int64))]
        wholes += [lists.map(lambda i: torch.tensor(i, dtype=torch.int64))]
    return st.one_of(wholes)
