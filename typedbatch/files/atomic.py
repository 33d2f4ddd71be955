"""Files that are there whole or not at all."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from typedbatch.errors import StorageError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[IO[bytes], None, None]:
    """A file to write beside ``path``, which takes its place when the block has ended well, and is gone otherwise.

    It is made anew, under a name that nobody can guess. An old file's permissions stay. A process that is killed leaves
    the old file. After a power cut the new one may be incomplete, which reading finds.

    Raises:
        StorageError: the file cannot be written.
    """
    path = Path(os.path.realpath(path))  # a link stays one
    unfinished = path.with_name(f".{secrets.token_hex(8)}.new")
    try:
        file = open(unfinished, "x+b", buffering=0)  # noqa: SIM115  # it is closed below
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error}") from error
    try:
        with file:
            yield file
            with suppress(FileNotFoundError):
                unfinished.chmod(stat.S_IMODE(path.stat().st_mode))
        os.replace(unfinished, path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error}") from error
    finally:
        with suppress(OSError):
            unfinished.unlink()
