"""Completions of language servers and jedi behind the dot of a batch, and in the call of its constructor."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.evidence.editor.exceptions import EXCEPTIONS
from tests.evidence.editor.questions import (
    CALLS,
    DECLARED_IN,
    DETAILS,
    FIELDS,
    HEAD,
    OFFERS,
    VALUES,
    Question,
    in_disorder,
    not_ahead,
    not_by_name,
    not_offered,
)
from tests.evidence.editor.servers import CURSOR, SERVERS, Offer, Server

Ask = Callable[[Question, str], None]


@pytest.mark.parametrize(
    ("question", "about"), [(question, about) for question in OFFERS for about in OFFERS[question]]
)
def test_everything_declared_is_offered(ask: Ask, question: Question, about: str) -> None:
    ask(question, about)


@pytest.mark.parametrize("value", VALUES)
def test_fields_come_first_or_names_are_in_order(ask: Ask, server: Server, value: str) -> None:
    ask(in_disorder(server), value)


def test_exceptions_are_about_what_is_asked() -> None:
    asked = {**OFFERS, **DETAILS, not_ahead: VALUES, not_by_name: VALUES}
    assert EXCEPTIONS.keys() == SERVERS.keys()
    for questions in EXCEPTIONS.values():
        for question, about in questions.items():
            assert about.keys() <= set(asked[question])
            assert all(known.names and known.reason for known in about.values())


class Canned:
    """An editor that always offers the same names."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def complete(self, text: str) -> list[Offer]:
        assert text.count(CURSOR) == 1
        return [Offer(name, name, str) for name in self.names]

    def hover(self, text: str) -> str:
        return ""

    signature = hover

    def definition(self, text: str) -> list[object]:
        return []


@pytest.mark.parametrize(
    ("question", "about"),
    [(question, about) for question in OFFERS | DETAILS for about in (OFFERS | DETAILS)[question]],
)
def test_each_question_finds_what_is_amiss(question: Question, about: str) -> None:
    """Of an editor that knows nothing but the words of the document."""
    words = FIELDS if question.__name__ == "guessed" else ()
    assert question(Canned(*words), about)


def test_order_is_looked_at() -> None:
    assert not_ahead(Canned("copy", *FIELDS), "record") == list(FIELDS)
    assert not_ahead(Canned(*FIELDS, "copy"), "record") == []
    assert not_ahead(Canned("rew", "copy", "obs"), "record") == [field for field in FIELDS if field != "rew"]
    assert not_by_name(Canned("act", "rew", "obs"), "record") == ["obs"]
    assert not_offered(Canned(*FIELDS), "own record") == ["goal"]


def test_programs_are_python() -> None:
    for body in VALUES.values():
        compile(f"{HEAD}{body}x", "program.py", "exec")
    assert DECLARED_IN.keys() <= VALUES.keys()
    assert "goal" in CALLS["GoalRollout"]
