"""Atomic writing: a new file takes the place of the old one only when it is complete."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from typedbatch.errors import StorageError
from typedbatch.files.regular import is_from_system, require_regular


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Generator[IO[bytes], None, None]:
    """Open a temporary file beside ``path``, which replaces it at the end of the block and is deleted on an error.

    The temporary file has a random name, so that nobody can create it first. The permissions of an old file are kept.
    A link is replaced, and its target does not change: in a folder that others can write to, the link may point to any
    file of the caller. If the process is killed, the old file stays. After a power failure the new file may be
    incomplete, which readers detect.

    Raises:
        StorageError: The file cannot be written, or ``path`` is neither a regular file nor a link.
    """
    path = Path(os.path.abspath(path))
    unfinished = path.with_name(f".{secrets.token_hex(8)}.new")
    file = mode = None
    try:
        found: os.stat_result | None
        try:
            found = path.lstat()
        except FileNotFoundError:
            found = None
        if found is not None and not stat.S_ISLNK(found.st_mode):
            require_regular(found, f"{path} cannot be written: it")
            mode = stat.S_IMODE(found.st_mode)
        file = open(unfinished, "x+b", buffering=0)  # noqa: SIM115  # closed below
        with file:
            yield file
            if mode is not None:
                unfinished.chmod(mode)
        os.replace(unfinished, path)
    except OSError as error:
        if not is_from_system(error):
            raise
        raise StorageError(f"{path} cannot be written: {error}") from error
    finally:
        if file is not None:
            with suppress(OSError):
                unfinished.unlink()
