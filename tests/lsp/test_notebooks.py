"""Notebooks, whose cells are checked as one file."""

from __future__ import annotations

import pytest

from tests.lsp.client import Editor

pytestmark = pytest.mark.slow

CELLS = [
    "%matplotlib inline\nfrom typedbatch import Batch",
    "!pip install something\nbatch = Batch(obs=1, act=2)",
    "%%bash\nls -l $HOME",
    "%%time\nprint(batch.obz)",
]


class Notebook:
    """A notebook that is open in an editor."""

    def __init__(self, editor: Editor, name: str, cells: list[str]) -> None:
        self.editor = editor
        self.uri = editor.uri(name)
        self.cells = [f"{self.uri}#{number}" for number in range(len(cells))]
        self.texts = dict(zip(self.cells, cells, strict=True))
        document = {
            "uri": self.uri,
            "notebookType": "jupyter-notebook",
            "version": 1,
            "cells": [{"kind": 2, "document": uri} for uri in self.cells],
        }
        documents = [
            {"uri": uri, "languageId": "python", "version": 1, "text": text} for uri, text in self.texts.items()
        ]
        editor.notify("notebookDocument/didOpen", {"notebookDocument": document, "cellTextDocuments": documents})

    def edit(self, at: int, text: str) -> list[dict]:
        """Give a cell a text, and return its diagnostics once they are there."""
        uri, last = self.cells[at], self.cells[-1]  # The diagnostics of the last cell come last.
        before = self.editor.published.get(last, 0)
        change = {"document": {"uri": uri, "version": 2}, "changes": [{"text": text}]}
        notebook = {"uri": self.uri, "version": 2}
        self.editor.notify(
            "notebookDocument/didChange", {"notebookDocument": notebook, "change": {"cells": {"textContent": [change]}}}
        )
        self.editor.wait(lambda: self.editor.published.get(last, 0) > before)
        return self.editor.diagnostics[uri]

    def at(self, cell: int, line: int, character: int) -> dict:
        """Return a place in a cell."""
        return {"textDocument": {"uri": self.cells[cell]}, "position": {"line": line, "character": character}}


@pytest.fixture(scope="module")
def notebook(editor):
    notebook = Notebook(editor, "some notebook.ipynb", CELLS)
    editor.wait(lambda: editor.published.get(notebook.cells[3], 0) > 0)
    return notebook


def test_a_cell_is_checked_with_what_cells_before_it_define(editor, notebook):
    (found,) = editor.diagnostics[notebook.cells[3]]
    assert found["message"] == 'Batch has no field "obz"; did you mean "obs"?'
    assert found["range"] == {"start": {"line": 1, "character": 6}, "end": {"line": 1, "character": 15}}
    assert editor.diagnostics[notebook.cells[1]] == []


def test_hovering_and_definitions_lead_to_cells(editor, notebook):
    found = editor.request("textDocument/hover", notebook.at(1, 1, 2))
    assert "obs" in found["contents"]["value"]
    notebook.edit(3, "%%time\nprint(batch.obs)")
    (place,) = editor.request("textDocument/definition", notebook.at(3, 1, 13))
    assert place["uri"] == notebook.cells[1]
    assert place["range"]["start"] == {"line": 1, "character": 14}


def test_fields_are_completed_in_a_cell(editor, notebook):
    notebook.edit(3, "print(batch.")
    found = editor.request("textDocument/completion", notebook.at(3, 0, 12))
    assert [one["label"] for one in found] == ["obs", "act"]


def test_a_cell_that_cannot_be_read_hides_no_other(editor, notebook):
    notebook.edit(2, "def f(:\n   ]")
    assert [one["message"] for one in notebook.edit(3, "print(batch.obz)")] == [
        'Batch has no field "obz"; did you mean "obs"?'
    ]


def test_a_notebook_that_is_closed_has_no_diagnostics(editor, notebook):
    notebook.edit(3, "print(batch.obz)")
    before = editor.published[notebook.cells[3]]
    documents = [{"uri": uri} for uri in notebook.cells]
    editor.notify(
        "notebookDocument/didClose", {"notebookDocument": {"uri": notebook.uri}, "cellTextDocuments": documents}
    )
    editor.wait(lambda: editor.published[notebook.cells[3]] > before)
    assert editor.diagnostics[notebook.cells[3]] == []
