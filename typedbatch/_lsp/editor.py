"""The editor as a project sees it: diagnostics, messages, and the progress of what takes long."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from typedbatch._lsp.documents import Document
from typedbatch._lsp.positions import Positions


class Editor:
    """The editor, as a project sees it.

    Args:
        server: What speaks with it.
        root: Folder of the project.
        document_of: Function that returns the document of a path in the project.
    """

    def __init__(self, server: LanguageServer, root: Path, document_of: Callable[[str], Document | None]) -> None:
        self._server = server
        self._root = root
        self._document_of = document_of
        self._token = f"typedbatch {root}"

    def found(self, path: str, found: list[dict[str, Any]]) -> None:
        """Show what is found in a file."""
        document = self._document_of(path)
        if document is None:
            return
        positions = Positions(document, self._server.workspace.position_codec)
        by_part: dict[str, list[lsp.Diagnostic]] = {part.uri: [] for part in document.parts}
        for one in found:
            place = positions.range({**one, "column": one["column"] - 1})
            if place is not None:
                by_part[place[0]].append(_diagnostic(one, place[1]))
        for uri, diagnostics in by_part.items():
            self._server.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, diagnostics))

    def checked(self) -> None:
        """Ask again for what is shown beside the code."""
        workspace = self._server.client_capabilities.workspace
        hints = workspace.inlay_hint if workspace is not None else None
        if hints is not None and hints.refresh_support:
            self._server.workspace_inlay_hint_refresh(None)

    def say(self, text: str) -> None:
        """Show a text to the person."""
        self._server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Warning, text))

    def log(self, text: str) -> None:
        """Write a line to the log."""
        self._server.window_log_message(lsp.LogMessageParams(lsp.MessageType.Log, text))

    async def loading(self, is_loading: bool) -> None:
        """Show that the project is loaded, or that it is done."""
        window = self._server.client_capabilities.window
        if window is None or not window.work_done_progress:
            return
        progress = self._server.work_done_progress
        if is_loading:
            if self._token not in progress.tokens:
                await progress.create_async(self._token)
            progress.begin(self._token, lsp.WorkDoneProgressBegin(f"typedbatch: reading {self._root.name}"))
        else:
            progress.end(self._token, lsp.WorkDoneProgressEnd())


def _diagnostic(one: dict[str, Any], place: lsp.Range) -> lsp.Diagnostic:
    is_error = one["severity"] == "error"
    return lsp.Diagnostic(
        place,
        one["message"],
        lsp.DiagnosticSeverity.Error if is_error else lsp.DiagnosticSeverity.Information,
        one["code"],
        lsp.CodeDescription(one["page"]),
        "typedbatch",
    )
