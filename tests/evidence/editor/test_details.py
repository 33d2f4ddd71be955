"""Details of a field: its type and docstring in completions and on hover, and the place where it is declared."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.evidence.editor.questions import DETAILS, FIELDS, Question, documentation

Ask = Callable[[Question, str], None]


@pytest.mark.parametrize(
    ("question", "about"), [(question, about) for question in DETAILS for about in DETAILS[question]]
)
def test_every_field_is_described(ask: Ask, question: Question, about: str) -> None:
    ask(question, about)


@pytest.mark.parametrize("value", ["protocol parameter", "record"])
def test_docstrings_have_the_shape(value: str) -> None:
    """Otherwise the questions above would be about docstrings without one."""
    shapeless = [field for field in FIELDS if "(N," not in documentation(value, field)]
    assert shapeless == ["info", "obs_next"]  # "N rows: a nested batch or an object array", and "as obs"
