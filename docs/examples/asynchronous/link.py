"""A pipe to another process, whose end is an error here and not a wait for ever."""

from __future__ import annotations

from multiprocessing.connection import Connection
from queue import SimpleQueue
from threading import Thread
from typing import Any


class OtherSideEndedError(RuntimeError):
    """The other process ended, so that no message of it will come."""


class Link:
    """Messages to and from another process.

    A thread takes what arrives, so that neither side waits for the other to read.

    Args:
        connection: One end of a pipe. The other one must be open in the other process alone.
        name: Name of the other side, for errors.
    """

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self._name = connection, name
        self._arrived: SimpleQueue[tuple[Any, ...]] = SimpleQueue()
        self._failure: Exception | None = None
        Thread(target=self._read, daemon=True).start()

    def put(self, message: object) -> None:
        """Send a message.

        Raises:
            OtherSideEndedError: The other process has ended.
        """
        try:
            self._connection.send(message)
        except OSError as error:
            raise self._ended() from error

    def get(self) -> Any:
        """Wait for the next message.

        Raises:
            OtherSideEndedError: The other process has ended, and all that it has sent was taken; or a message cannot be
            read.
        """
        found = self._arrived.get()
        if not found:
            self._arrived.put(())
            raise self._ended() from self._failure
        return found[0]

    def _read(self) -> None:
        try:
            while True:
                self._arrived.put((self._connection.recv(),))
        except Exception as error:  # noqa: BLE001  # get() raises it: the end of the pipe, or a message that cannot be read
            self._failure = error
        finally:
            self._arrived.put(())

    def _ended(self) -> OtherSideEndedError:
        return OtherSideEndedError(f"the {self._name} has ended, and this side does not go on without it")
