"""What counts as a slip of a field's name, where it cannot be seen which fields there are."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from typedbatch._program.near import _SHORT, near_miss

pytestmark = pytest.mark.quick

WORDS = st.text("abcdefgh_", min_size=3, max_size=12)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("obz", "obs"), ("advs", "adv"), ("retruns", "returns"), ("retunrs", "returns"), ("return", "returns"),
        ("terminatd", "terminated"), ("next_obs", "obs_next"), ("obsnext", "obs_next"), ("logpold", "logp_old"),
        ("logp_odl", "logp_old"), ("row", "rows"), ("weights", "weight"), ("rewards_", "rewards"),
    ],
)  # fmt: skip
def test_a_slip(name: str, known: str) -> None:
    assert near_miss(name, ["unrelated", known]) == known


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("ret", "rew"), ("ref", "rew"), ("pos", "obs"), ("val", "vel"), ("q1", "q2"), ("critic1", "critic2"),
        ("epoch", "epochs"), ("steps", "step"), ("logp_old", "logp"), ("obs_next", "obs"), ("x", "y"),
        ("done", "terminated"), ("device", "seed"), ("reward", "rew"), ("obs", "obs"), ("mu_min", "mu_max"),
    ],
)  # fmt: skip
def test_another_field(name: str, known: str) -> None:
    assert near_miss(name, [known]) == ""


@given(WORDS, st.lists(WORDS, max_size=4))
def test_what_is_known_is_no_slip(name: str, known: list[str]) -> None:
    assert near_miss(name, [*known, name]) == ""
    assert near_miss(name, known) in {"", *known}


@given(WORDS, WORDS)
def test_a_name_is_as_near_to_another_as_that_is_to_it(one: str, other: str) -> None:
    words = {word.removesuffix("s") for name in (one, other) for word in name.split("_")}
    assume(not words & _SHORT)  # a word of the field is no slip for an unknown one, which may be one for it
    assert bool(near_miss(one, [other])) == bool(near_miss(other, [one]))
