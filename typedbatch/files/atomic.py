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
from typedbatch.files.regular import is_from_system, require_regular


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[IO[bytes], None, None]:
    """A file to write beside ``path``, which takes its place when the block has ended well, and is gone otherwise.

    It is made anew, under a name that nobody can guess. An old file's permissions stay. A link is replaced, and what it
    points to stays as it is: in a folder that others write to, it may point to any file of the caller's. A process that
    is killed leaves the old file. After a power cut the new one may be incomplete, which reading finds.

    Raises:
        StorageError: the file cannot be written, or something is there that is neither a regular file nor a link.
    """
    path = Path(os.path.abspath(path))
    unfinished = path.with_name(f".{secrets.token_hex(8)}.new")
    file = None
    try:
        mode = _mode_of(path)
        file = open(unfinished, "x+b", buffering=0)  # noqa: SIM115  # it is closed below
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


def _mode_of(path: Path) -> int | None:
    """Return the permissions of a file, None where there is none; a link has none of its own.

    Raises:
        StorageError: it is a folder, a pipe or a device.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(found.st_mode):
        return None
    require_regular(found, f"{path} cannot be written: it")
    return stat.S_IMODE(found.st_mode)
