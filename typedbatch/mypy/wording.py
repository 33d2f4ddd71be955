"""Types as a person would write them, in the text of a message: ``Batch(obs, act)``, ``RolloutBatchProtocol``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_ARRAY = "ndarray[tuple[Any, ...], dtype[Any]]"
_GENERIC = re.compile(r"\b(\w+)\[")
_FIELDS = "Any | TypedDict({"


def plain_words(message: str, is_batch: Callable[[str], bool] | None = None) -> str:
    """Return a message with its types shortened.

    Args:
        message: Text with types as mypy writes them.
        is_batch: Whether the name of a generic class is that of a batch, record or protocol; a message without any of
            them stays as it is. None for a message of the plugin's own.
    """
    if is_batch is not None and not any(is_batch(match[1]) for match in _GENERIC.finditer(message)):
        return message
    return _shortened(message, is_batch or _sounds_like_batch).replace(_ARRAY, "ndarray")


def _sounds_like_batch(name: str) -> bool:
    return "Batch" in name or name.endswith("Protocol")


def _shortened(text: str, is_batch: Callable[[str], bool]) -> str:
    found: list[str] = []
    end = 0
    for match in _GENERIC.finditer(text):
        if match.start() < end:
            continue
        close = _closing(text, match.end() - 1)
        if close is None:
            break
        found += [text[end : match.start()], _type(match[1], text[match.end() : close], is_batch)]
        end = close + 1
    return "".join([*found, text[end:]])


def _type(name: str, inner: str, is_batch: Callable[[str], bool]) -> str:
    if not is_batch(name):
        return f"{name}[{_shortened(inner, is_batch)}]"
    if name == "Batch":
        return name if inner == "Any" else f"{name}({', '.join(_names(inner))})"
    arguments = list(dict.fromkeys(_parts(inner)))
    if arguments == [_ARRAY]:
        return name
    shown = arguments if len(arguments) == 1 else _parts(inner)
    return f"{name}[{', '.join(_shortened(one, is_batch) for one in shown)}]"


def _names(inner: str) -> Iterator[str]:
    """Return the fields of a batch, with a question mark behind one that may be missing."""
    if not inner.startswith(_FIELDS):
        yield "..."
        return
    close = _closing(inner, len(_FIELDS) - 1) or len(inner)
    for part in _parts(inner[len(_FIELDS) : close]):
        key = re.match(r"'([^']*)'(\??)", part)
        if key is not None:
            yield key[1] + key[2]
    if inner[close:].strip(" })|"):
        yield "..."


def _closing(text: str, opening: int) -> int | None:
    depth = 0
    for place in range(opening, len(text)):
        depth += (text[place] in "[({") - (text[place] in "])}")
        if depth == 0:
            return place
    return None


def _parts(text: str) -> list[str]:
    """Return the parts of a text between commas that are not in brackets."""
    found, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "[({") - (letter in "])}")
        if letter == "," and depth == 0:
            found.append(text[start:place].strip())
            start = place + 1
    return [part for part in [*found, text[start:].strip()] if part]
