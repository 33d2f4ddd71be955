"""Shapes and dtypes mean what jaxtyping says they mean: the same annotations, the same arrays, the same verdict."""

from __future__ import annotations

from typing import Any, get_args

import hypothesis.strategies as st
import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import assume, given
from jaxtyping import AnnotationError, jaxtyped

from tests.validation.helpers import record
from typedbatch import Batch, conforms
from typedbatch.errors import DeclarationError

FAMILIES = ["Float", "Float32", "Float64", "Int", "Int64", "UInt8", "UInt", "Integer", "Bool", "Num", "Real", "Shaped"]
FAMILIES += ["Inexact", "Complex", "Complex64", "Float16", "BFloat16", "Int8"]
NUMPY = ["float64", "float32", "int64", "uint8", "bool", "complex64", "int8", "float16", "object", "U3", "M8[s]", ">f4"]
TORCH = [torch.float32, torch.float64, torch.int64, torch.uint8, torch.bool, torch.complex64, torch.bfloat16]
WORDS = ["N", "M", "N", "3", "1", "_", "...", "*s", "*s", "#N", "#3", "*#s", "#*s", "_any", "*_any", "rows=3"]
COMPUTED = ["2*N", "N+M", "N-1", "N//2", "max(N,M)", "#2*N", "N/1", "N/(M-M)"]
sizes = st.sampled_from([1, 1, 2, 3, 3, 0])
shapes = st.lists(sizes, max_size=4).map(tuple)
VARIADIC = {"...", "*s", "*#s", "#*s", "*_any"}


def texts_of(words: list[str]) -> st.SearchStrategy[str]:
    """Shapes with at most one element for any number of dimensions, as jaxtyping asks for."""
    return st.lists(st.sampled_from(words), max_size=4).map(_first_variadic_only)


def _first_variadic_only(words: list[str]) -> str:
    first = next((i for i, word in enumerate(words) if word in VARIADIC), None)
    return " ".join(word for i, word in enumerate(words) if word not in VARIADIC or i == first)


def verdict(annotations: list[Any], arrays: list[Any]) -> bool:
    """jaxtyping's own, for one scope of names."""
    with jaxtyped("context"):
        pairs = zip(arrays, annotations, strict=True)
        return all(any(isinstance(array, one) for one in get_args(hint) or (hint,)) for array, hint in pairs)


def agree(annotations: list[Any], arrays: list[Any]) -> None:
    try:
        theirs = verdict(annotations, arrays)
    except (AnnotationError, ZeroDivisionError):  # a computed size before its names
        assume(False)
    names = [f"f{i}" for i in range(len(annotations))]
    try:
        schema = record(**dict(zip(names, annotations, strict=True)))
    except DeclarationError as error:
        assume("is not a dimension of any field" in str(error))
        assume(False)
    batch = Batch()
    batch.__dict__.update(zip(names, arrays, strict=True))
    assert conforms(batch, schema) == theirs


def hint_for(family: str, cls: type, text: str) -> Any:
    try:
        return getattr(jaxtyping, family)[cls, text]
    except ValueError:
        assume(False)


@given(st.data())
def test_shapes_of_several_fields(data: st.DataObject):
    texts = data.draw(st.lists(texts_of(WORDS), min_size=1, max_size=4))
    agree([hint_for("Shaped", np.ndarray, text) for text in texts], [np.zeros(data.draw(shapes)) for _ in texts])


@given(st.data())
def test_sizes_computed_from_others(data: st.DataObject):
    texts = ["N M", *data.draw(st.lists(texts_of([*COMPUTED, "N", "_"]), min_size=1, max_size=3))]
    first = data.draw(st.tuples(sizes, sizes))
    arrays = [np.zeros(first), *(np.zeros(data.draw(shapes)) for _ in texts[1:])]
    agree([hint_for("Shaped", np.ndarray, text) for text in texts], arrays)


@given(st.data())
def test_arrays_that_nearly_always_fit(data: st.DataObject):
    """Random shapes mostly fail at the first field; these are made from the annotations, but for the last one."""
    texts = data.draw(st.lists(texts_of(WORDS), min_size=2, max_size=4))
    known = {"N": data.draw(sizes), "M": data.draw(sizes), "s": data.draw(st.lists(sizes, max_size=2))}
    arrays = [np.zeros([size for word in text.split() for size in made(word, known, data)]) for text in texts]
    if data.draw(st.booleans()):
        arrays[-1] = np.zeros(data.draw(shapes))
    agree([hint_for("Shaped", np.ndarray, text) for text in texts], arrays)


def made(word: str, known: dict[str, Any], data: st.DataObject) -> list[int]:
    name = word.strip("#*")
    if "#" in word and data.draw(st.booleans()):
        return [1] * (len(known["s"]) if name == "s" else 1)
    if name in known:
        return [known[name]] if isinstance(known[name], int) else list(known[name])
    digits = name.rpartition("=")[2]
    return [int(digits)] if digits.isdigit() else [data.draw(sizes)]


@pytest.mark.parametrize("family", FAMILIES)
def test_dtypes_of_numpy(family: str):
    for dtype in NUMPY:
        agree([hint_for(family, np.ndarray, "N")], [np.zeros(2, dtype)])


@pytest.mark.parametrize("family", FAMILIES)
def test_dtypes_of_torch(family: str):
    for dtype in TORCH:
        agree([hint_for(family, torch.Tensor, "N")], [torch.zeros(2, dtype=dtype)])
        agree([hint_for(family, np.ndarray, "N")], [torch.zeros(2, dtype=dtype)])


@given(st.data())
def test_tensors_as_arrays(data: st.DataObject):
    texts = data.draw(st.lists(texts_of(WORDS), min_size=1, max_size=3))
    agree([hint_for("Shaped", torch.Tensor, text) for text in texts], [torch.zeros(data.draw(shapes)) for _ in texts])


def test_annotations_inside_annotations_and_for_either_library():
    inner = jaxtyping.Float[jaxtyping.Shaped[np.ndarray, "3"], "N"]
    agree([inner], [np.zeros((2, 3))])
    agree([inner], [np.zeros((2, 4))])
    either = jaxtyping.Int[np.ndarray | torch.Tensor, "N"]
    for value in (np.zeros(2, int), torch.zeros(2, dtype=torch.int64), torch.zeros(2), np.zeros((2, 2), int)):
        agree([either], [value])


def test_own_families_and_structured_dtypes():
    class Small(jaxtyping.AbstractDtype):
        dtypes = ("uint8", "int8")

    pair = np.dtype([("a", "f4"), ("b", "i8")])
    Pair = jaxtyping.make_numpy_struct_dtype(pair, "Pair")
    for dtype in ("uint8", "int8", "int64", pair, [("a", "f4"), ("c", "i8")]):
        agree([Small[np.ndarray, "N"]], [np.zeros(2, dtype)])
        agree([Pair[np.ndarray, "N"]], [np.zeros(2, dtype)])


def test_where_typedbatch_says_yes_and_jaxtyping_no():
    """int64 has two names in C, and numpy takes them for equal; so does this library."""
    longlong = np.zeros(2, np.longlong)
    assert longlong.dtype == np.int64
    assert conforms(Batch(x=longlong), record(x=jaxtyping.Int64[np.ndarray, "N"]))
