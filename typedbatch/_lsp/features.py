"""The server with all that it offers, and what an editor tells it of documents."""

from __future__ import annotations

from pathlib import Path

from lsprotocol import types as lsp
from pygls.uris import to_fs_path

from typedbatch._lsp.answering import answer_questions, offer_changes
from typedbatch._lsp.server import Server
from typedbatch.cli.settings import FILES as SETTINGS


class _Nobody:
    """A writer in place of the one to an editor that has gone."""

    def write(self, data: bytes) -> None:
        """Write nothing."""

    def close(self) -> None:
        """Close nothing."""


def make_server() -> Server:
    """Return a server that answers all requests that it offers."""
    server = Server()
    _sync(server)
    answer_questions(server)
    offer_changes(server)
    return server


def _sync(server: Server) -> None:
    @server.feature(lsp.INITIALIZE)
    def _(given: lsp.InitializeParams) -> None:
        server.options = given.initialization_options if isinstance(given.initialization_options, dict) else {}

    @server.feature(lsp.INITIALIZED)
    async def _(given: lsp.InitializedParams) -> None:
        workspace = server.client_capabilities.workspace
        watching = workspace.did_change_watched_files if workspace is not None else None
        if watching is not None and watching.dynamic_registration:
            patterns = ["**/*.py", "**/*.pyi", *(f"**/{name}" for name in SETTINGS)]
            watchers = [lsp.FileSystemWatcher(pattern) for pattern in patterns]
            options = lsp.DidChangeWatchedFilesRegistrationOptions(watchers)
            registration = lsp.Registration("files", lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, options)
            await server.client_register_capability_async(lsp.RegistrationParams([registration]))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def _(given: lsp.DidOpenTextDocumentParams) -> None:
        server.opened(given.text_document.uri, at_once=True)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def _(given: lsp.DidChangeTextDocumentParams) -> None:
        server.opened(given.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    async def _(given: lsp.DidSaveTextDocumentParams) -> None:
        path = to_fs_path(given.text_document.uri)
        if path is not None:
            server.changed_on_disk(Path(path))

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    async def _(given: lsp.DidCloseTextDocumentParams) -> None:
        server.closed([given.text_document.uri])

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_OPEN)
    async def _(given: lsp.DidOpenNotebookDocumentParams) -> None:
        if given.cell_text_documents:
            server.opened(given.cell_text_documents[0].uri, at_once=True)

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CHANGE)
    async def _(given: lsp.DidChangeNotebookDocumentParams) -> None:
        notebook = server.workspace.get_notebook_document(notebook_uri=given.notebook_document.uri)
        if notebook is not None and notebook.cells:
            server.opened(notebook.cells[0].document)

    @server.feature(lsp.NOTEBOOK_DOCUMENT_DID_CLOSE)
    async def _(given: lsp.DidCloseNotebookDocumentParams) -> None:
        server.closed([one.uri for one in given.cell_text_documents])

    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def _(given: lsp.DidChangeWatchedFilesParams) -> None:
        for change in given.changes:
            path = to_fs_path(change.uri)
            if path is not None:
                server.changed_on_disk(Path(path))

    @server.feature(lsp.SHUTDOWN)
    async def _(given: None) -> None:
        server.is_shut_down = True
        await server.end()

    @server.feature(lsp.EXIT)
    def _(given: None) -> None:
        server.exit_code = 0 if server.is_shut_down else 1  # pygls drops the code that it ends with.
        server.protocol.set_writer(_Nobody())
