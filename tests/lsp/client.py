"""A client of the language server: an editor with one folder."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from tests.evidence.editor.lsp import JSON, read_message

PATIENCE = 120.0
"""Seconds for what never takes so long, so that a test fails instead of hanging."""
CAPABILITIES = {
    "general": {"positionEncodings": ["utf-16"]},
    "workspace": {
        "workspaceFolders": True,
        "inlayHint": {"refreshSupport": True},
        "didChangeWatchedFiles": {"dynamicRegistration": True},
    },
    "textDocument": {
        "synchronization": {"didSave": True},
        "completion": {"completionItem": {"labelDetailsSupport": True}},
        "hover": {"contentFormat": ["markdown"]},
        "definition": {},
        "codeAction": {"codeActionLiteralSupport": {"codeActionKind": {"valueSet": ["quickfix", "refactor.extract"]}}},
        "inlayHint": {},
        "rename": {"prepareSupport": True},
        "publishDiagnostics": {"codeDescriptionSupport": True},
    },
    "notebookDocument": {"synchronization": {}},
    "window": {"workDoneProgress": True},
}


class RefusedError(Exception):
    """An answer that is an error."""


class Editor:
    """An editor with one folder.

    Args:
        folder: The folder.
        options: Initialization options of the server; mypy runs only if they say so.
        stderr: File for what the server prints.
    """

    def __init__(
        self,
        folder: Path,
        options: dict[str, Any] | None = None,
        stderr: IO[bytes] | int = subprocess.DEVNULL,
    ) -> None:
        self.folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "typedbatch.cli", "lsp", "--stdio"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
        )
        self._received: queue.SimpleQueue[JSON | None] = queue.SimpleQueue()
        self._texts: dict[str, str] = {}
        self._versions: dict[str, int] = {}
        self._last = 0
        self.notifications: list[JSON] = []
        self.diagnostics: dict[str, list[JSON]] = {}
        self.published: dict[str, int] = {}
        self._reader = threading.Thread(target=self._read_all, daemon=True)
        self._reader.start()
        given = {
            "processId": os.getpid(),
            "rootUri": folder.as_uri(),
            "workspaceFolders": [{"uri": folder.as_uri(), "name": folder.name}],
            "capabilities": CAPABILITIES,
            "initializationOptions": {"types": False, **(options or {})},
        }
        self.capabilities = self.request("initialize", given)["capabilities"]
        self.notify("initialized", {})

    @property
    def pid(self) -> int:
        """Number of the server's process."""
        return self._process.pid

    # ---- messages -------------------------------------------------------------------------------------------------

    def request(self, method: str, params: JSON) -> JSON:
        """Return the answer to a request."""
        self._last += 1
        number = self._last
        self._send({"id": number, "method": method, "params": params})
        while True:
            message = self._next()
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise RefusedError(message["error"]["message"])
                return message.get("result")

    def notify(self, method: str, params: JSON) -> None:
        """Send what has no answer."""
        self._send({"method": method, "params": params})

    def wait(self, until: Callable[[], bool], patience: float = PATIENCE) -> None:
        """Read messages until something holds."""
        end = time.monotonic() + patience
        while not until():
            self._next(max(end - time.monotonic(), 0.001))

    def _next(self, patience: float = PATIENCE) -> JSON:
        message = self._received.get(timeout=patience)
        assert message is not None, "the server has ended"
        if "method" in message:
            self._react(message)
        return message

    def _react(self, message: JSON) -> None:
        self.notifications.append(message)
        if message["method"] == "textDocument/publishDiagnostics":
            uri = message["params"]["uri"]
            self.diagnostics[uri] = message["params"]["diagnostics"]
            self.published[uri] = self.published.get(uri, 0) + 1
        if "id" in message:
            self._send({"id": message["id"], "result": None})

    def _send(self, message: JSON) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self._process.stdin is not None
        self._process.stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        self._process.stdin.flush()

    def _read_all(self) -> None:
        assert self._process.stdout is not None
        while (message := read_message(self._process.stdout)) is not None:
            self._received.put(message)
        self._received.put(None)

    def logged(self) -> list[JSON]:
        """Return what the server has written to the log."""
        return [one for one in self.notifications if one["method"] == "window/logMessage"]

    def shown(self) -> list[str]:
        """Return what the server has shown to the person."""
        return [one["params"]["message"] for one in self.notifications if one["method"] == "window/showMessage"]

    # ---- documents ------------------------------------------------------------------------------------------------

    def uri(self, name: str) -> str:
        """Return the address of a file."""
        return (self.folder / name).as_uri()

    def open(self, name: str, text: str | None = None, patience: float = PATIENCE) -> list[JSON]:
        """Open a file, and return its diagnostics once they are there."""
        before = self.published.get(self.uri(name), 0)
        self.open_only(name, text)
        return self.after(name, before, patience)

    def open_only(self, name: str, text: str | None = None) -> None:
        """Open a file."""
        text = (self.folder / name).read_text("utf-8") if text is None else text
        self._texts[name], self._versions[name] = text, 1
        document = {"uri": self.uri(name), "languageId": "python", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})

    def type(self, name: str, text: str) -> None:
        """Give a file a text, as by typing."""
        self._texts[name] = text
        self._versions[name] += 1
        document = {"uri": self.uri(name), "version": self._versions[name]}
        self.notify("textDocument/didChange", {"textDocument": document, "contentChanges": [{"text": text}]})

    def edit(self, name: str, text: str) -> list[JSON]:
        """Give a file a text, and return its diagnostics once they are there."""
        before = self.published.get(self.uri(name), 0)
        self.type(name, text)
        return self.after(name, before)

    def after(self, name: str, before: int, patience: float = PATIENCE) -> list[JSON]:
        """Return the next diagnostics of a file, after a number of earlier ones."""
        self.wait(lambda: self.published.get(self.uri(name), 0) > before, patience)
        return self.diagnostics[self.uri(name)]

    def save(self, name: str) -> None:
        """Write a file, and say so."""
        (self.folder / name).write_text(self._texts[name], "utf-8")
        self.notify("textDocument/didSave", {"textDocument": {"uri": self.uri(name)}})

    def close(self, name: str) -> None:
        """Close a file."""
        self.notify("textDocument/didClose", {"textDocument": {"uri": self.uri(name)}})

    # ---- questions ------------------------------------------------------------------------------------------------

    def at(self, name: str, marked: str) -> JSON:
        """Return the position of a ``|`` in an excerpt of a file."""
        excerpt = marked.replace("|", "")
        text = self._texts[name]
        assert text.count(excerpt) == 1, excerpt
        before = text[: text.index(excerpt) + marked.index("|")]
        line = before.count("\n")
        character = len(before.rpartition("\n")[2].encode("utf-16-le", "surrogatepass")) // 2
        return {"textDocument": {"uri": self.uri(name)}, "position": {"line": line, "character": character}}

    def complete(self, name: str, marked: str) -> list[JSON]:
        """Return completions in their order."""
        found = self.request("textDocument/completion", self.at(name, marked)) or []
        assert isinstance(found, list), found
        return sorted(found, key=lambda one: one["sortText"])

    def labels(self, name: str, marked: str) -> list[str]:
        """Return the names that are offered, with a question mark behind those that may be missing."""
        return [one["detail"].partition(":")[0] for one in self.complete(name, marked)]

    def hover(self, name: str, marked: str) -> str:
        """Return the text under the mouse; empty if there is none."""
        found = self.request("textDocument/hover", self.at(name, marked))
        return found["contents"]["value"] if found else ""

    def definition(self, name: str, marked: str) -> list[str]:
        """Return the lines that a definition leads to."""
        found = self.request("textDocument/definition", self.at(name, marked)) or []
        return [f"{Path(one['uri']).name}:{one['range']['start']['line'] + 1}" for one in found]

    def hints(self, name: str) -> list[str]:
        """Return the hints beside the code, each with its line."""
        whole = {"start": {"line": 0, "character": 0}, "end": {"line": 9999, "character": 0}}
        given = {"textDocument": {"uri": self.uri(name)}, "range": whole}
        found = self.request("textDocument/inlayHint", given) or []
        return [f"{one['position']['line'] + 1}{one['label']}" for one in found]

    def actions(self, name: str, marked: str) -> list[JSON]:
        """Return the code actions at a place."""
        place = self.at(name, marked)
        here = {"start": place["position"], "end": place["position"]}
        line = place["position"]["line"]
        near = [one for one in self.diagnostics.get(self.uri(name), []) if one["range"]["start"]["line"] == line]
        return self.request("textDocument/codeAction", {**place, "range": here, "context": {"diagnostics": near}}) or []

    def rename(self, name: str, marked: str, new: str) -> JSON:
        """Return the edits of a renaming."""
        return self.request("textDocument/rename", {**self.at(name, marked), "newName": new})

    def apply(self, edit: JSON) -> dict[str, str]:
        """Return the texts of files after an edit."""
        return {Path(uri).name: applied(self.text(uri), edits) for uri, edits in edit["changes"].items()}

    def text(self, uri: str) -> str:
        """Return the text of a file."""
        name = next((one for one in self._texts if self.uri(one) == uri), None)
        return self._texts[name] if name is not None else (self.folder / Path(uri).name).read_text("utf-8")

    def stop(self) -> int:
        """Say goodbye, and return the exit code of the server."""
        self.request("shutdown", None)
        self.notify("exit", None)
        return self.ended()

    def ended(self) -> int:
        """Wait until the server has ended by itself, and return its exit code."""
        self._process.wait(timeout=PATIENCE)
        return self.kill()

    def kill(self) -> int:
        """End the server, if it runs, and return its exit code."""
        self._process.kill()
        code = self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        return code


def applied(text: str, edits: list[JSON]) -> str:
    """Return a text after edits, of which the last is made first."""
    lines = text.split("\n")
    for one in sorted(edits, key=lambda one: tuple(one["range"]["start"].values()), reverse=True):
        start, end = one["range"]["start"], one["range"]["end"]
        before = lines[start["line"]].encode("utf-16-le")[: 2 * start["character"]].decode("utf-16-le")
        behind = lines[end["line"]].encode("utf-16-le")[2 * end["character"] :].decode("utf-16-le")
        lines[start["line"] : end["line"] + 1] = (before + one["newText"] + behind).split("\n")
    return "\n".join(lines)
