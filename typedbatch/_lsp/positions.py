"""Places in a text as the client counts them, and as mypy does: lines from 1, columns in bytes."""

from __future__ import annotations

from typing import Any

from lsprotocol.types import Position, Range
from pygls.workspace import PositionCodec

from typedbatch._lsp.documents import Document, Part


class Positions:
    """Positions of one document.

    Args:
        document: The document.
        codec: The client's way to count characters.
    """

    def __init__(self, document: Document, codec: PositionCodec) -> None:
        self._document = document
        self._codec = codec

    def characters(self, uri: str, position: Position) -> tuple[int, int]:
        """Return the line, from 1, and the column in characters of a position of the client."""
        part = self._document.part_of(uri)
        if part is None:
            return 1, 0
        line = min(position.line, len(part.lines) - 1)
        column = self._codec.position_from_client_units([*part.lines], Position(line, position.character)).character
        return part.first + line + 1, column

    def bytes(self, uri: str, position: Position) -> tuple[int, int]:
        """Return the line, from 1, and the column in bytes of a position of the client."""
        line, column = self.characters(uri, position)
        part = self._document.part_at(line)
        written = part.lines[line - part.first - 1] if part is not None else ""
        return line, len(written[:column].encode())

    def position(self, part: Part, line: int, column: int) -> Position:
        """Return the client's position of a line and a column in bytes; a negative column is the end of the line."""
        at = min(line - part.first - 1, len(part.lines) - 1)
        written = part.lines[at]
        before = written if column < 0 else written.encode()[:column].decode("utf-8", "ignore")
        return Position(at, self._codec.client_num_units(before))

    def range(self, given: dict[str, Any]) -> tuple[str, Range] | None:
        """Return the address of the text and the client's range of ``line``, ``column`` and their ends."""
        line, end_line = given["line"], given.get("end_line", given["line"])
        part = self._document.part_at(line)
        if part is None:
            return None
        end_line = min(end_line, part.first + len(part.lines))
        start = self.position(part, line, given["column"])
        return part.uri, Range(start, self.position(part, end_line, given["end_column"]))
