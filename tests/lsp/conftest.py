"""An editor with a real server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lsp.client import Editor


@pytest.fixture(scope="module")
def editor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Editor]:
    """An editor with a folder of its own, which the tests of a module share, each with files of its own."""
    editor = Editor(tmp_path_factory.mktemp("project").resolve())
    yield editor
    editor.kill()
