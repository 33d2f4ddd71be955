"""Regular files, which are opened without blocking and replaced only by complete ones."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from typedbatch.errors import StorageError

# Without this flag, opening a pipe blocks until another program opens its other end.
_NOT_WAITING = getattr(os, "O_NONBLOCK", 0)


def open_regular(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a regular file for reading; links are followed.

    The check is on the opened file and not on its path, so nobody can put a pipe in its place in between.
    """
    file: IO[bytes] = open(  # noqa: SIM115  # closed by the caller
        path, "rb", opener=lambda name, flags: os.open(name, flags | _NOT_WAITING)
    )
    try:
        require_regular(os.fstat(file.fileno()), os.fspath(path))
    except BaseException:
        file.close()
        raise
    return file


def require_regular(found: os.stat_result, name: str) -> None:
    """Raise an error about ``name`` unless the result of ``stat``, ``lstat`` or ``fstat`` is that of a regular file."""
    if not stat.S_ISREG(found.st_mode):
        raise StorageError(f"{name} is not a regular file")


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Generator[IO[bytes], None, None]:
    """Open a temporary file beside ``path``, which replaces it at the end of the block and is deleted on an error.

    The temporary file has a random name, so that nobody can create it first. The permissions of an old file are kept.
    A link is replaced, and its target does not change: in a folder that others can write to, the link may point to any
    file of the caller. If the process is killed, the old file stays. After a power failure the new file may be
    incomplete, which readers detect.
    """
    path = Path(os.path.abspath(path))
    unfinished = path.with_name(f".{secrets.token_hex(8)}.new")
    file = mode = None
    try:
        with suppress(FileNotFoundError):
            found = path.lstat()
            if not stat.S_ISLNK(found.st_mode):
                require_regular(found, f"{path} cannot be written: it")
                mode = stat.S_IMODE(found.st_mode)
        file = open(unfinished, "x+b", buffering=0)  # noqa: SIM115  # closed below
        with file:
            yield file
            if mode is not None:
                unfinished.chmod(mode)
        os.replace(unfinished, path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error}") from error
    finally:
        if file is not None:
            with suppress(OSError):
                unfinished.unlink()
