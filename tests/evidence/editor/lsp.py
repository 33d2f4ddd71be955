"""A client of the Language Server Protocol: as much of an editor as asking about one open document takes."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

JSON = Any
"""A value of JSON. The protocol defines its shape, which is checked where it is read."""

CAPABILITIES = {
    "workspace": {"configuration": True, "workspaceFolders": True, "didChangeConfiguration": {}},
    "textDocument": {
        "synchronization": {},
        "completion": {
            "completionItem": {
                "documentationFormat": ["markdown", "plaintext"],
                "labelDetailsSupport": True,
                "resolveSupport": {"properties": ["documentation", "detail"]},
            },
            "contextSupport": True,
        },
        "hover": {"contentFormat": ["markdown", "plaintext"]},
        "signatureHelp": {"signatureInformation": {"documentationFormat": ["markdown", "plaintext"]}},
        "definition": {"linkSupport": False},
    },
}


class ServerFailedError(Exception):
    """A server ended, or answered with an error."""


class Client:
    """One server process, in a folder of its own.

    Args:
        command: how it is started.
        folder: the workspace.
        environment: its environment variables.
        settings: what it gets when it asks for its configuration, or is told once it has started.
        log: where its standard error goes.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, environment: Mapping[str, str], settings: JSON, log: Path
    ) -> None:
        self.settings = settings
        self._log = log
        self._last_id = 0
        self._received: queue.SimpleQueue[JSON | None] = queue.SimpleQueue()
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # a group of its own, so that what a launcher started ends with it
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin: IO[bytes] = self._process.stdin
        self._stdout: IO[bytes] = self._process.stdout
        self._reader = threading.Thread(target=self._read_all, daemon=True)
        self._reader.start()

    def start(self, folder: Path) -> JSON:
        """Shake hands, and return what the server says it can do."""
        uri = folder.as_uri()
        answer = self.request(
            "initialize",
            {
                "processId": os.getpid(),
                "rootUri": uri,
                "workspaceFolders": [{"uri": uri, "name": folder.name}],
                "capabilities": CAPABILITIES,
            },
        )
        self.notify("initialized", {})
        self.notify("workspace/didChangeConfiguration", {"settings": self.settings})
        return answer["capabilities"]

    def request(self, method: str, params: JSON) -> JSON:
        """Ask, and wait for the answer; what the server asks meanwhile is answered.

        Raises:
            ServerFailedError: the answer is an error, or the server has ended.
        """
        self._last_id += 1
        self._send({"id": self._last_id, "method": method, "params": params})
        while True:
            message = self._next(method)
            if "method" in message:
                self._react(message)
            elif message.get("id") == self._last_id:
                if "error" in message:
                    raise ServerFailedError(f"{method}: {message['error']}")
                return message.get("result")

    def notify(self, method: str, params: JSON) -> None:
        """Tell the server something that has no answer."""
        self._send({"method": method, "params": params})

    def stop(self) -> None:
        """End the server, and whatever it started, without a question: it may be hung."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join()
        self._stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()

    def _send(self, message: JSON) -> None:
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        try:
            self._stdin.write(b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
            self._stdin.flush()
        except BrokenPipeError as error:
            raise ServerFailedError(self._said("the server has ended")) from error

    def _next(self, method: str) -> JSON:
        message = self._received.get()
        if message is None:
            raise ServerFailedError(self._said(f"{method}: the server has ended"))
        return message

    def _react(self, message: JSON) -> None:
        """Answer what the server asks; its notifications are of no interest here."""
        if "id" not in message:
            return
        result: JSON = None
        if message["method"] == "workspace/configuration":
            result = [_section(self.settings, item.get("section")) for item in message["params"]["items"]]
        self._send({"id": message["id"], "result": result})

    def _read_all(self) -> None:
        """In a thread: every message until the server closes its output, then None."""
        while (message := read_message(self._stdout)) is not None:
            self._received.put(message)
        self._received.put(None)

    def _said(self, what: str) -> str:
        return f"{what}\n{self._log.read_text(encoding='utf-8', errors='replace')[-3000:]}"


def read_message(stream: IO[bytes]) -> JSON | None:
    length = 0
    while (line := stream.readline().strip()) or not length:
        if not line:
            return None
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    body = stream.read(length)
    return json.loads(body) if len(body) == length else None


def _section(settings: JSON, name: str | None) -> JSON:
    """The settings under a dotted name, None where there are none."""
    for part in name.split(".") if name else []:
        settings = settings.get(part) if isinstance(settings, dict) else None
    return settings
