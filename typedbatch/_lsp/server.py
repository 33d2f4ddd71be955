"""The language server: the documents of an editor, and the projects that they are in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.uris import from_fs_path, to_fs_path

from typedbatch._lsp.documents import Document, module_path, of_cells, of_file
from typedbatch._lsp.editor import Editor
from typedbatch._lsp.positions import Positions
from typedbatch._lsp.project import Pauses, Project
from typedbatch.cli.settings import FILES as SETTINGS

_PYTHON_CELLS: Final = lsp.NotebookDocumentFilterWithCells(
    [lsp.NotebookCellLanguage("python")], notebook="jupyter-notebook"
)


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
            editor = Editor(self, root, partial(self._document_of, root))
            pauses = Pauses(answer=float(self.options.get("limit", Pauses.answer)))
            self._projects[root] = Project(root, editor, self.options, pauses)
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

    def _document_of(self, root: Path, path: str) -> Document | None:
        return self.document_at(self.project_of(root / path), path)

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
