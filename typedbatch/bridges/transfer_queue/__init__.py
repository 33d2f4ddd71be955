"""Typed streams of rollouts between processes, on TransferQueue. Needs the extra ``transferqueue``.

A stream is declared by its stages. Each worker puts the columns that its stage adds, and asks for rows that have the
columns of a protocol. TransferQueue runs on Ray and sends Python objects between its processes, so use it only between
processes that trust each other.
"""

from typedbatch.bridges.transfer_queue._queue import open_queue
from typedbatch.bridges.transfer_queue.stream import KEY, Stream

__all__ = ["KEY", "Stream", "open_queue"]
