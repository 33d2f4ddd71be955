"""Patterns of einops against einops itself."""

from __future__ import annotations

import einops
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.typing.shapes.drawing import K, L, N
from typedbatch._program.arrays.products import EINOPS_FUNCTIONS
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import Arguments, Array, Axis, Literal, MismatchError

COUNTS = {"b": 2, "h": 3, "w": 4, "c": 5}
NAMES = st.permutations(list(COUNTS))


def tensor(*sizes: Size | int) -> Array:
    axes = tuple(Axis(number(size) if isinstance(size, int) else size) for size in sizes)
    return Array(axes, None, torch=True)


def call(name: str, array: Array, pattern: str, **sizes: int) -> str:
    by_name = {word: number(size) for word, size in sizes.items()}
    rest = (Literal("mean"),) if name == "reduce" else ()
    return str(EINOPS_FUNCTIONS[name](Arguments((array, Literal(pattern), *rest), by_name, torch=True)))


def grouped(names: list[str], cuts: list[bool]) -> str:
    """Write names as a pattern; those without a cut between them are one axis."""
    groups = [[names[0]]]
    for name, cut in zip(names[1:], cuts, strict=False):
        if cut:
            groups.append([name])
        else:
            groups[-1].append(name)
    return " ".join(f"({' '.join(group)})" if len(group) > 1 else group[0] for group in groups)


def shape_of(pattern: str) -> list[int]:
    sizes = dict(COUNTS)
    return list(einops.rearrange(torch.zeros(*sizes.values()), f"{' '.join(sizes)} -> {pattern}").shape)


@given(NAMES, NAMES, st.lists(st.booleans(), min_size=3, max_size=3), st.lists(st.booleans(), min_size=3, max_size=3))
def test_what_is_known_is_what_einops_gives(left, right, cuts, other_cuts):
    one, two = grouped(left, cuts), grouped(right, other_cuts)
    shape = shape_of(one)
    sizes = {name: COUNTS[name] for name in left}
    found = einops.rearrange(torch.zeros(shape), f"{one} -> {two}", **sizes)
    assert call("rearrange", tensor(*shape), f"{one} -> {two}", **sizes) == str(tuple(found.shape)).replace(",)", ",)")
    kept = grouped(right[:2], other_cuts)
    reduced = einops.reduce(torch.zeros(shape), f"{one} -> {kept}", "mean", **sizes)
    assert call("reduce", tensor(*shape), f"{one} -> {kept}", **sizes) == str(tuple(reduced.shape))


@pytest.mark.parametrize(
    ("name", "sizes", "pattern", "given_", "expected"),
    [
        ("rearrange", (N, L, K), "b l (h d) -> b h l d", {"h": 4}, "(N, 4, L, K//4)"),
        ("rearrange", (N, L, K), "b l d -> (b l) d", {}, "(L*N, K)"),
        ("reduce", (N, L, K), "b l d -> b", {}, "(N,)"),
        ("repeat", (N, K), "b d -> (b k) d", {"k": 3}, "(3*N, K)"),
        ("repeat", (N, K), "b d -> b k d", {"k": 3}, "(N, 3, K)"),
        ("rearrange", (N, K), "b d -> b 1 d", {}, "(N, 1, K)"),
        ("rearrange", (N, K), "b ... -> ... b", {}, "(...)"),
    ],
)
def test_sizes_with_names(name, sizes, pattern, given_, expected):
    assert call(name, tensor(*sizes), pattern, **given_) == expected


def test_einsum():
    arrays = tensor(N, L), tensor(L, K)
    known = EINOPS_FUNCTIONS["einsum"](Arguments((*arrays, Literal("batch i, i j -> batch j")), torch=True))
    assert str(known) == "(N, K)"
    with pytest.raises(MismatchError, match=r"einsum 'a b, c b -> a c': b is L and K"):
        EINOPS_FUNCTIONS["einsum"](Arguments((*arrays, Literal("a b, c b -> a c")), torch=True))


@pytest.mark.parametrize(
    ("name", "sizes", "pattern", "given_", "text"),
    [
        ("rearrange", (N, L), "b l d -> b (l d)", {}, "rearrange 'b l d -> b (l d)' is for 3 axes, got (N, L)"),
        ("rearrange", (N, 10), "b (h d) -> b h d", {"h": 4}, "rearrange 'b (h d) -> b h d': 10 is not a multiple of 4"),
        ("rearrange", (N, L), "b l -> b", {}, "rearrange 'b l -> b': l is on one side only"),
        ("repeat", (N, L), "b l -> b l k", {}, "repeat 'b l -> b l k': k is on one side only"),
        ("rearrange", (3, 4), "b b -> b b", {}, "rearrange 'b b -> b b': b is 3 and 4"),
    ],
)
def test_what_does_not_fit_is_reported(name, sizes, pattern, given_, text):
    with pytest.raises(MismatchError) as raised:
        call(name, tensor(*sizes), pattern, **given_)
    assert str(raised.value) == text


def test_a_part_without_elements_is_unknown():
    assert call("rearrange", tensor(N, L), "b (h d) -> b h d", h=0) == "(N, 0, ?)"
