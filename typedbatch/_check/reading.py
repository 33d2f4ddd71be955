"""Files and texts as Python reads them, and the errors of those that it cannot read."""

from __future__ import annotations

import ast
import re
import stat
import sys
import tokenize
import warnings
from pathlib import Path
from typing import Final

_MOST_BYTES: Final = 5 * 2**20
"""Size of the largest file that is checked; mypy takes twenty seconds and gigabytes of memory for more."""
_RECURSION: Final = 4000
"""Limit of recursion, with which Python reads sums of 12,000 numbers. mypy crashes at sums of 30,000."""
UNPRINTABLE: Final = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
"""Characters in names of files that mypy or a terminal cannot write, such as bytes that are not UTF-8."""


def text_of(path: Path) -> str:
    """Return the text of a file.

    Raises:
        OSError: The file has no text to check, because it is not regular, is too large, or cannot be read.
        SyntaxError: It cannot be decoded.
    """
    found = path.stat()
    if UNPRINTABLE.search(str(path)):
        raise OSError("its name has characters that cannot be written as text")
    if not stat.S_ISREG(found.st_mode):
        raise OSError("it cannot be listed" if path.is_dir() else "it is not a regular file")
    if found.st_size > _MOST_BYTES:
        raise OSError(f"it has {found.st_size:,} bytes, and files of more than {_MOST_BYTES:,} are left out")
    try:
        with tokenize.open(path) as file:
            return file.read()
    except (ValueError, LookupError) as error:
        raise SyntaxError(str(error)) from error


def tree_of(text: str) -> ast.Module:
    """Return the syntax of a text, without what Python says of the escapes in it.

    Raises:
        SyntaxError: It cannot be read.
    """
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(_RECURSION)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except ValueError as error:
        raise SyntaxError(str(error)) from error
    except (RecursionError, MemoryError) as error:
        lines = text.split("\n")
        longest = max(range(len(lines)), key=lambda at: len(lines[at]))  # Python does not say where.
        raise SyntaxError("this is nested too deeply", (None, longest + 1, 1, None)) from error
    finally:
        sys.setrecursionlimit(limit)
