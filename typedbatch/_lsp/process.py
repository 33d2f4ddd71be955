"""The worker as the server sees it: a process that answers requests, hangs, or ends."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

_LONGEST_LINE: Final = 64 * 2**20
WORKER: Final = "typedbatch._lsp.worker"
TYPES: Final = "typedbatch._lsp.mypy_check"
"""Modules that serve requests."""


class RefusedError(Exception):
    """A request that the worker refuses, with a text for people."""


class EndedError(Exception):
    """A worker that has ended, or that does not answer in time."""


class Process:
    """A worker.

    Args:
        process: The process.
        log: Called with each line that it writes to standard error.
    """

    def __init__(self, process: asyncio.subprocess.Process, log: Callable[[str], None]) -> None:
        self._process = process
        self._log = log
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._last = 0
        self._tasks = [asyncio.create_task(self._read()), asyncio.create_task(self._read_log())]

    @classmethod
    async def start(cls, module: str, log: Callable[[str], None]) -> Process:
        """Start a worker, whose module serves requests."""
        pipe = asyncio.subprocess.PIPE
        command = (sys.executable, "-P", "-m", module)
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, limit=_LONGEST_LINE, start_new_session=True
        )
        return cls(process, log)

    @property
    def is_running(self) -> bool:
        """True while the process is running."""
        return self._process.returncode is None

    async def request(self, method: str, limit: float, **params: Any) -> Any:
        """Return the answer to a request.

        Args:
            method: Name of the method.
            limit: Seconds after which the worker counts as hung, and is ended.
            params: Its arguments.

        Raises:
            RefusedError: The worker refuses.
            EndedError: The worker has crashed, has ended, or does not answer in time.
        """
        self._last += 1
        number = self._last
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        try:
            if not self.is_running or self._process.stdin is None:
                raise EndedError("the worker has ended")
            self._process.stdin.write(json.dumps({"id": number, "method": method, "params": params}).encode() + b"\n")
            with suppress(ConnectionError):
                await self._process.stdin.drain()
            return await asyncio.wait_for(asyncio.shield(answer), limit)
        except TimeoutError:
            await self.stop()
            raise EndedError(f"no answer within {limit:g} s") from None
        finally:
            self._waiting.pop(number, None)

    async def stop(self) -> None:
        """End the process, and those that it has started."""
        if self.is_running:
            with suppress(ProcessLookupError):
                if sys.platform == "win32":
                    self._process.kill()
                else:
                    os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()

    async def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # a line that is longer than any answer
            while line := await self._process.stdout.readline():
                self._answered(json.loads(line))
        await self.stop()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(EndedError("the worker has ended"))

    def _answered(self, given: dict[str, Any]) -> None:
        answer = self._waiting.get(given["id"])
        if given.get("is_crash"):
            self._log(given["error"])
        if answer is None or answer.done():
            return
        if "error" not in given:
            answer.set_result(given["result"])
        elif given.get("is_crash"):
            answer.set_exception(EndedError(given["error"].strip().splitlines()[-1]))
        else:
            answer.set_exception(RefusedError(given["error"]))

    async def _read_log(self) -> None:
        assert self._process.stderr is not None
        with suppress(ValueError):
            while line := await self._process.stderr.readline():
                self._log(line.decode("utf-8", "replace").rstrip())
