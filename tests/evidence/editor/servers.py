"""Requests of editors about fields, and who answers them: five language servers, and jedi, which is a library."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urlparse

from tests.evidence.editor.lsp import JSON, Client

CURSOR = "<|>"
"""Where the cursor is in a text."""


@dataclass(frozen=True)
class Offer:
    """One completion that is offered.

    Attributes:
        name: less the ``=`` of a keyword.
        rank: editors show offers in the order of this text.
        more: asks for what is only computed for the offer that is selected: its type and documentation.
    """

    name: str
    rank: str
    more: Callable[[], str] = field(compare=False)


@dataclass(frozen=True)
class Place:
    """A line of a file, from 1."""

    file: str
    line: int


class Editor(Protocol):
    """One open document, and who is asked about it. In every text :data:`CURSOR` says where."""

    def complete(self, text: str) -> list[Offer]:
        """Return the completions in the order in which they are shown."""
        ...

    def hover(self, text: str) -> str:
        """Return the text that is shown for the name."""
        ...

    def signature(self, text: str) -> str:
        """The signature of the call, or nothing."""
        ...

    def definition(self, text: str) -> list[Place]:
        """Where the name is declared."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


@dataclass(frozen=True)
class Server:
    """How a language server is started in a folder of its own, and told which interpreter to look at.

    Attributes:
        name: of its package, too.
        command: less the folder of this interpreter's programs; none for jedi.
        files: to write beside the program; ``{python}`` is this interpreter.
        settings: as an editor keeps them, by section.
        by_name: it sorts members by name; otherwise those that the class itself declares come first.
    """

    name: str
    command: str
    files: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, JSON] = field(default_factory=dict)
    by_name: bool = True

    @property
    def version(self) -> str:
        """The version that is installed."""
        return version(self.name)

    def start(self, folder: Path) -> Editor:
        """Start it; ``folder`` becomes the workspace."""
        return LanguageServer(self, folder) if self.command else Jedi(folder)


_PYRIGHT = {"python": {"pythonPath": sys.executable}}

SERVERS: dict[str, Server] = {
    server.name: server
    for server in (
        Server("pyright", "pyright-langserver --stdio", {"pyrightconfig.json": "{}"}, _PYRIGHT, by_name=False),
        Server(
            "basedpyright", "basedpyright-langserver --stdio", {"pyrightconfig.json": "{}"}, _PYRIGHT, by_name=False
        ),
        Server("ty", "ty server", {"ty.toml": "environment.python = '{python}'\n"}),
        Server("pyrefly", "pyrefly lsp", {"pyrefly.toml": "python-interpreter-path = '{python}'\n"}),
        Server("zuban", "zuban server", {"mypy.ini": "[mypy]\npython_executable = {python}\n"}),
        Server("jedi", ""),
    )
}


class LanguageServer:
    """An :class:`Editor` with a language server."""

    def __init__(self, server: Server, folder: Path) -> None:
        for name, text in server.files.items():
            (folder / name).write_text(text.replace("{python}", sys.executable), encoding="utf-8")
        self._uri = (folder / "program.py").as_uri()
        self._version = 0
        program, *arguments = server.command.split()
        log = folder / "stderr.log"
        command = [str(Path(sys.executable).parent / program), *arguments]
        # it is ended by a signal, and what it leaves behind is to lie where its workspace does
        environment = _environment() | {"TMPDIR": str(folder.parent)}
        self._client = Client(command, folder, environment, server.settings, log)
        self.abilities = self._client.start(folder)

    def complete(self, text: str) -> list[Offer]:
        where = self._show(text)
        typed = text.partition(CURSOR)[0][-1]
        context = {"triggerKind": 2, "triggerCharacter": typed} if typed in ".(" else {"triggerKind": 1}
        answer = self._client.request("textDocument/completion", {**where, "context": context})
        items = answer["items"] if isinstance(answer, dict) else answer or []
        offers = [
            Offer(item["label"].rstrip("="), item.get("sortText", item["label"]), self._more(item)) for item in items
        ]
        return sorted(offers, key=lambda offer: offer.rank)

    def hover(self, text: str) -> str:
        answer = self._client.request("textDocument/hover", self._show(text))
        return _plain(answer["contents"]) if answer else ""

    def signature(self, text: str) -> str:
        answer = self._client.request("textDocument/signatureHelp", self._show(text))
        return "\n".join(signature["label"] for signature in answer["signatures"]) if answer else ""

    def definition(self, text: str) -> list[Place]:
        answer = self._client.request("textDocument/definition", self._show(text)) or []
        return [_place(location) for location in ([answer] if isinstance(answer, dict) else answer)]

    def close(self) -> None:
        self._client.stop()

    def _show(self, text: str) -> JSON:
        """Open the document, or replace its text; and say where the cursor is."""
        before, _, after = text.partition(CURSOR)
        self._version += 1
        document = {"uri": self._uri, "version": self._version}
        if self._version == 1:
            opened = {**document, "languageId": "python", "text": before + after}
            self._client.notify("textDocument/didOpen", {"textDocument": opened})
        else:
            changes = [{"text": before + after}]
            self._client.notify("textDocument/didChange", {"textDocument": document, "contentChanges": changes})
        *lines, last = before.split("\n")
        return {"textDocument": {"uri": self._uri}, "position": {"line": len(lines), "character": len(last)}}

    def _more(self, item: JSON) -> Callable[[], str]:
        def more() -> str:
            resolved = item
            if self.abilities.get("completionProvider", {}).get("resolveProvider"):
                resolved = self._client.request("completionItem/resolve", item)
            labels = (resolved.get("labelDetails") or {}).values()
            return "\n".join(filter(None, [resolved.get("detail"), *labels, _plain(resolved.get("documentation"))]))

        return more


class Jedi:
    """An :class:`Editor` with jedi, as notebooks and editors' plugins call it."""

    def __init__(self, folder: Path) -> None:
        import jedi  # here, so that its import counts as part of a cold start

        jedi.settings.cache_directory = str(folder / "jedi")
        self._jedi = jedi
        self._environment = jedi.create_environment(sys.prefix, safe=False)
        self._project = jedi.Project(folder)
        self._path = folder / "program.py"

    def complete(self, text: str) -> list[Offer]:
        script, where = self._script(text)
        found = script.complete(*where)
        return [Offer(one.name.rstrip("="), f"{rank:06}", _jedi_more(one)) for rank, one in enumerate(found)]

    def hover(self, text: str) -> str:
        script, where = self._script(text)
        return "\n".join(f"{name.description}\n{name.docstring()}" for name in script.help(*where))

    def signature(self, text: str) -> str:
        script, where = self._script(text)
        return "\n".join(signature.to_string() for signature in script.get_signatures(*where))

    def definition(self, text: str) -> list[Place]:
        script, where = self._script(text)
        return [Place(name.module_path.name, name.line) for name in script.goto(*where, follow_imports=True)]

    def close(self) -> None:
        """The process that jedi looks into compiled modules with ends when nobody refers to it any more."""
        del self._environment

    def _script(self, text: str) -> tuple[Any, tuple[int, int]]:
        before, _, after = text.partition(CURSOR)
        *lines, last = before.split("\n")
        script = self._jedi.Script(
            before + after, path=self._path, environment=self._environment, project=self._project
        )
        return script, (len(lines) + 1, len(last))


def _jedi_more(completion: Any) -> Callable[[], str]:
    def more() -> str:
        try:
            hint = completion.get_type_hint()
        except TypeError:  # jedi 0.20 cannot spell a type with brackets around a type variable that it has not solved
            hint = None
        return f"{hint or ''}\n{completion.docstring()}"

    return more


def _environment() -> dict[str, str]:
    """This process's, less what would steer a server past the settings beside the program."""
    steering = ("MYPY", "PYREFLY_", "TY_", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(steering)}
    return kept | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}  # no look-up of a newer version


def _plain(content: JSON) -> str:
    """Text of a hover or documentation, in each form that the protocol allows."""
    if isinstance(content, list):
        return "\n".join(map(_plain, content))
    text = content.get("value", "") if isinstance(content, dict) else content or ""
    return re.sub(r"\\([_*`\[\]])|&nbsp;", lambda escaped: escaped[1] or " ", text)


def _place(location: JSON) -> Place:
    uri = location.get("uri") or location["targetUri"]
    span = location.get("range") or location["targetSelectionRange"]
    return Place(Path(unquote(urlparse(uri).path)).name, span["start"]["line"] + 1)
