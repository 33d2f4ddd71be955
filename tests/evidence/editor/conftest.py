"""One session with each server."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.evidence.editor.exceptions import expected
from tests.evidence.editor.questions import Question
from tests.evidence.editor.servers import SERVERS, Editor, Server


@pytest.fixture(scope="session", params=SERVERS.values(), ids=lambda server: server.name)
def server(request: pytest.FixtureRequest) -> Server:
    """Each server."""
    return request.param


@pytest.fixture(scope="session")
def editor(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """A session with it, in a workspace of its own."""
    editor = server.start(tmp_path_factory.mktemp(server.name).resolve())
    yield editor
    editor.close()


@pytest.fixture
def ask(server: Server, editor: Editor) -> Callable[[Question, str], None]:
    """Ask the server a question, and fail where more is amiss than is known, or less."""

    def ask(question: Question, about: str) -> None:
        known = expected(server.name, question, about)
        amiss = question(editor, about)
        if amiss != list(known.names):
            said = f"{server.name}, {about}. {question.__doc__} Found: {amiss}."
            if known.names:
                said += f" Known: {list(known.names)}, {known.reason}. Is the entry in exceptions.py still needed?"
            pytest.fail(said, pytrace=False)

    return ask
