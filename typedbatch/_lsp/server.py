"""The language server: what editors ask, in the words of the Language Server Protocol."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.uris import from_fs_path, to_fs_path

from typedbatch._lsp.actions import corrections, declaration
from typedbatch._lsp.documents import Document, module_path, of_cells, of_file
from typedbatch._lsp.positions import Positions
from typedbatch._lsp.process import RefusedError
from typedbatch._lsp.project import Pauses, Project
from typedbatch.cli.settings import FILES as SETTINGS

_PYTHON_CELLS: Final = lsp.NotebookDocumentFilterWithCells(
    [lsp.NotebookCellLanguage("python")], notebook="jupyter-notebook"
)
_FAILED: Final = -32803
"""Code of the protocol for a request that is right and cannot be met."""


class _Protocol(LanguageServerProtocol):
    """The protocol with answers to requests that it does not allow, which pygls leaves without one."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Return a message, of which any line and character that are integers are read as the nearest ones allowed."""
        for name in ("line", "character"):
            if isinstance(data.get(name), int):
                data[name] = min(max(data[name], 0), 2**31 - 1)
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if "id" in data and "method" in data:
                self._send_response(data["id"], error=error.to_response_error())
            raise


class _Nobody:
    """A writer in place of the one to an editor that has gone."""

    def write(self, data: bytes) -> None:
        """Write nothing."""

    def close(self) -> None:
        """Close nothing."""


class Server(LanguageServer):
    """A server for the folders of one editor."""

    def __init__(self) -> None:
        super().__init__(
            "typedbatch",
            version("typedbatch"),
            protocol_cls=_Protocol,
            notebook_document_sync=lsp.NotebookDocumentSyncOptions([_PYTHON_CELLS], save=True),
        )
        self.options: dict[str, Any] = {}
        self.exit_code = 0
        """1 if the editor asks the server to exit before it asks it to shut down."""
        self.is_shut_down = False
        self._projects: dict[Path, Project] = {}
        self._documents: dict[str, tuple[Project, Document]] = {}
        """Open documents, by the addresses of their texts."""

    # ---- documents ------------------------------------------------------------------------------------------------

    def project_of(self, path: Path) -> Project:
        """Return the project that a file is in, or one of its folder alone."""
        folders = [Path(folder) for one in self.workspace.folders.values() if (folder := to_fs_path(one.uri))]
        if self.workspace.root_path:
            folders.append(Path(self.workspace.root_path))
        inside = [folder for folder in folders if path.is_relative_to(folder)]
        root = max(inside, key=lambda folder: len(folder.parts), default=path.parent)
        if root not in self._projects:
            client = _Client(self, root)
            pauses = Pauses(answer=float(self.options.get("limit", Pauses.answer)))
            self._projects[root] = Project(root, client, self.options, pauses)
        return self._projects[root]

    def opened(self, uri: str, *, at_once: bool = False) -> None:
        """Take the text of a file, or of a notebook that a cell is in."""
        notebook = self.workspace.get_notebook_document(cell_uri=uri)
        path = to_fs_path(notebook.uri if notebook is not None else uri)
        if path is None:
            return
        project = self.project_of(Path(path))
        inside = Path(path).relative_to(project.root).as_posix()
        if notebook is None:
            document = of_file(inside, uri, self.workspace.get_text_document(uri).source)
        else:
            document = of_cells(module_path(inside), self._cells(notebook))
        for part in document.parts:
            self._documents[part.uri] = project, document
        project.edit(document.path, document.text, at_once=at_once)

    def _cells(self, notebook: lsp.NotebookDocument) -> list[tuple[str, str]]:
        code = [cell.document for cell in notebook.cells if cell.kind is lsp.NotebookCellKind.Code]
        return [(uri, self.workspace.get_text_document(uri).source) for uri in code]

    def closed(self, uris: Sequence[str]) -> None:
        """Forget the texts of a document."""
        for uri in uris:
            known = self._documents.pop(uri, None)
            if known is not None:
                self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))
                known[0].close(known[1].path)

    def known(self, uri: str) -> tuple[Project, Document, Positions] | None:
        """Return the project and the document of a text that is open."""
        found = self._documents.get(uri)
        return None if found is None else (*found, Positions(found[1], self.workspace.position_codec))

    def document_at(self, project: Project, path: str) -> Document | None:
        """Return the document of a path, from the disk if it is not open."""
        for owner, document in self._documents.values():
            if owner is project and document.path == path:
                return document
        file = project.root / path
        try:
            return of_file(path, from_fs_path(str(file)) or "", file.read_text("utf-8"))
        except (OSError, UnicodeDecodeError):
            return None

    def changed_on_disk(self, path: Path) -> None:
        """Check a file that is not open, or load projects again whose settings have changed."""
        for root, project in self._projects.items():
            if path.name in SETTINGS and root.is_relative_to(path.parent):
                project.load_again()
            elif path.is_relative_to(root) and path.suffix in (".py", ".pyi"):
                project.save(path.relative_to(root).as_posix())

    async def end(self) -> None:
        """End all workers."""
        for project in self._projects.values():
            await project.end()

    # ---- edits ----------------------------------------------------------------------------------------------------

    def edits_of(self, project: Project, given: list[dict[str, Any]], path: str) -> dict[str, list[lsp.TextEdit]]:
        """Return edits of the worker, by the addresses of the texts."""
        found: dict[str, list[lsp.TextEdit]] = {}
        for one in given:
            document = self.document_at(project, one.get("path", path))
            place = Positions(document, self.workspace.position_codec).range(one) if document is not None else None
            if place is not None:
                found.setdefault(place[0], []).append(lsp.TextEdit(place[1], one["text"]))
        return found


class _Client:
    """The editor, as a project sees it."""

    def __init__(self, server: Server, root: Path) -> None:
        self._server = server
        self._root = root
        self._token = f"typedbatch {root}"

    def found(self, path: str, found: list[dict[str, Any]]) -> None:
        project = self._server.project_of(self._root / path)
        document = self._server.document_at(project, path)
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
        workspace = self._server.client_capabilities.workspace
        hints = workspace.inlay_hint if workspace is not None else None
        if hints is not None and hints.refresh_support:
            self._server.workspace_inlay_hint_refresh(None)

    def say(self, text: str) -> None:
        self._server.window_show_message(lsp.ShowMessageParams(lsp.MessageType.Warning, text))

    def log(self, text: str) -> None:
        self._server.window_log_message(lsp.LogMessageParams(lsp.MessageType.Log, text))

    async def loading(self, is_loading: bool) -> None:
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


def make_server() -> Server:
    """Return a server that answers all requests that it offers."""
    server = Server()
    _sync(server)
    _questions(server)
    _changes(server)
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


def _questions(server: Server) -> None:
    @server.feature(lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions([".", '"', "'"]))
    async def _(given: lsp.CompletionParams) -> list[lsp.CompletionItem] | lsp.CompletionList:
        found = server.known(given.text_document.uri)
        if found is None:
            return []
        project, document, positions = found
        line, column = positions.characters(given.text_document.uri, given.position)
        answer = await project.ask(
            "complete", is_settled=False, path=document.path, text=document.text, line=line, column=column
        )
        if answer is None:
            return lsp.CompletionList(is_incomplete=True, items=[])  # The editor asks again with the next character.
        return [
            lsp.CompletionItem(
                one["name"],
                lsp.CompletionItemLabelDetails(description=one["text"]) if one["text"] else None,
                lsp.CompletionItemKind.Field,
                detail=f"{one['label']}: {one['text']}" if one["text"] else one["label"],
                sort_text=f"{not one['is_sure']:d}{at:04d}",
            )
            for at, one in enumerate(answer)
        ]

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def _(given: lsp.HoverParams) -> lsp.Hover | None:
        found = server.known(given.text_document.uri)
        answer = await _at(server, "hover", given)
        if found is None or answer is None:
            return None
        place = found[2].range(answer)
        text = lsp.MarkupContent(lsp.MarkupKind.Markdown, answer["text"])
        return lsp.Hover(text, place[1] if place is not None else None)

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    async def _(given: lsp.DefinitionParams) -> list[lsp.Location]:
        found = server.known(given.text_document.uri)
        answer = await _at(server, "definition", given)
        places = []
        for one in answer or []:
            document = server.document_at(found[0], one["path"]) if found is not None else None
            place = Positions(document, server.workspace.position_codec).range(one) if document is not None else None
            places += [lsp.Location(*place)] if place is not None else []
        return places

    @server.feature(lsp.TEXT_DOCUMENT_INLAY_HINT)
    async def _(given: lsp.InlayHintParams) -> list[lsp.InlayHint]:
        found = server.known(given.text_document.uri)
        part = found[1].part_of(given.text_document.uri) if found is not None else None
        if found is None or part is None:
            return []
        project, document, positions = found
        first, last = part.first + given.range.start.line + 1, part.first + given.range.end.line + 1
        answer = await project.ask("hints", path=document.path, first=first, last=last)
        return [
            lsp.InlayHint(positions.position(part, one["line"], one["column"]), one["text"], lsp.InlayHintKind.Type)
            for one in answer or []
        ]


def _changes(server: Server) -> None:
    kinds = [lsp.CodeActionKind.QuickFix, lsp.CodeActionKind.RefactorExtract]

    @server.feature(lsp.TEXT_DOCUMENT_CODE_ACTION, lsp.CodeActionOptions(kinds))
    async def _(given: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = given.text_document.uri
        found = server.known(uri)
        part = found[1].part_of(uri) if found is not None else None
        if found is None or part is None:
            return []
        actions = list(corrections(given.context.diagnostics, uri, part.lines))
        if not given.context.only or any(
            lsp.CodeActionKind.RefactorExtract.startswith(one) for one in given.context.only
        ):
            line, column = found[2].bytes(uri, given.range.start)
            made = await found[0].ask("record", path=found[1].path, line=line, column=column)
            if made is not None:
                actions.append(declaration(made, server.edits_of(found[0], made["edits"], found[1].path)))
        return actions

    @server.feature(lsp.TEXT_DOCUMENT_PREPARE_RENAME)
    async def _(given: lsp.PrepareRenameParams) -> lsp.PrepareRenamePlaceholder | None:
        found = server.known(given.text_document.uri)
        answer = await _at(server, "rename", given, new=None)
        if found is None or answer is None:
            return None
        place = found[2].range(answer)
        return None if place is None else lsp.PrepareRenamePlaceholder(place[1], answer["name"])

    @server.feature(lsp.TEXT_DOCUMENT_RENAME, lsp.RenameOptions(prepare_provider=True))
    async def _(given: lsp.RenameParams) -> lsp.WorkspaceEdit | None:
        found = server.known(given.text_document.uri)
        answer = await _at(server, "rename", given, new=given.new_name)
        if found is None or answer is None:
            return None
        return lsp.WorkspaceEdit(changes=server.edits_of(found[0], answer["edits"], found[1].path))


async def _at(server: Server, method: str, given: Any, **params: Any) -> Any:
    """Return the answer of the worker to a question about a place; None where there is none."""
    found = server.known(given.text_document.uri)
    if found is None:
        return None
    project, document, positions = found
    line, column = positions.bytes(given.text_document.uri, given.position)
    try:
        return await project.ask(method, path=document.path, line=line, column=column, **params)
    except RefusedError as error:
        raise JsonRpcException(str(error), _FAILED) from error
