"""What happens when a protocol or record is declared: its place in the source is kept, and its annotations are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import lru_cache
from types import FrameType
from typing import Any, TypeVar

from typedbatch.errors import DeclarationError, SettingError

C = TypeVar("C", bound=type)

places: dict[type, tuple[str, int]] = {}
"""File and line of each class that was declared."""

readers: list[Callable[[type], None]] = []
"""Called with each class that is declared; ``typedbatch.schema`` refuses there what can never be read."""


class OwnSizes:
    """In ``Annotated``: the sizes of this batch are its own, also where others call theirs the same.

    ::

        class Side(BatchRecord):
            ids: Int[Tensor, "N T"]

        class Pairs(BatchRecord):
            chosen: Annotated[Side, OwnSizes]
            rejected: Annotated[Side, OwnSizes]

    Each side of ``Pairs`` is as long as it is: ``T`` is one size in ``chosen``, and one in ``rejected``. The rows ``N``
    stay those of the whole batch. Of an argument or a result, ``test: Annotated[Ready, OwnSizes]``, all names are its
    own, the rows too. Records that are nested in it share its sizes.
    """


class DeclaredFields(dict[type, frozenset[str]]):
    """Which fields a class of batches declares in some way; asked once for each class."""

    def __init__(self) -> None:
        super().__init__()
        self.readers: list[Callable[[type], frozenset[str]]] = []
        """``typedbatch.schema`` reads a declaration; empty before it is imported."""

    def __missing__(self, cls: type) -> frozenset[str]:
        try:
            self[cls] = frozenset[str]().union(*(reader(cls) for reader in self.readers))
        except DeclarationError:  # it names what is not there yet; validate() says what is wrong
            return frozenset()
        return self[cls]


object_fields = DeclaredFields()
"""Which are columns of objects."""

number_fields = DeclaredFields()
"""Which are arrays or tensors of a dtype that a list of numbers becomes."""

versions: dict[type, int] = {}
"""The version of each class that was given one."""


def schema_version(version: int) -> Callable[[C], C]:
    """Give a protocol or record a version, which files of it keep; without it a declaration is version 1.

    ``@schema_version(2)`` above a class whose fields have changed: :func:`typedbatch.files.load` then refuses files
    that were saved as version 1.

    Args:
        version: a number from 1 up.

    Raises:
        SettingError: it is none.
    """
    if type(version) is not int or version < 1:
        raise SettingError(f"the version of a schema is a number from 1 up, got {version!r}")

    def note(cls: C) -> C:
        versions[cls] = version
        return cls

    return note


def _module(frame: FrameType) -> Any:
    return frame.f_globals.get("__name__")  # which code that is executed from text may lack


def declare(cls: type) -> None:
    """Note where a class is declared, and let it be read.

    Raises:
        DeclarationError: what a reader has against it.
    """
    frame = sys._getframe(1)
    hooks = ("__init_subclass__", "__new__")
    while frame.f_back is not None and (frame.f_code.co_name in hooks or _module(frame) != cls.__module__):
        frame = frame.f_back
    if _module(frame) == cls.__module__:
        places[cls] = frame.f_code.co_filename, frame.f_lineno
    for reader in readers:
        reader(cls)


def outside(frame: FrameType) -> FrameType:
    """The frame itself, or the first further out, that is not of this package."""
    while is_own(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def is_own(frame: FrameType) -> bool:
    """Is it code of this package, in whichever of its folders."""
    own: bool = frame.f_globals.get("__name__", "").partition(".")[0] == "typedbatch"
    return own


def pydantic_schema(cls: type, source: Any, handler: object) -> Any:
    """What pydantic asks a class for that is the type of a field: how to validate it."""
    from typedbatch.bridges.pydantic import schema_for

    return schema_for(source)


def show_place(file: str, line: int) -> str:
    """``"myalgo/ppo.py:88"``: from the current directory or ``site-packages`` on, else the last folder and the file."""
    try:
        here = os.getcwd()
    except OSError:  # it is gone
        here = ""
    return f"{_short(file, here)}:{line}"


@lru_cache(maxsize=256)
def _short(file: str, here: str) -> str:
    if file.startswith("<"):  # no file: typed in, or a doctest
        return file
    _, installed, inside = file.rpartition(f"site-packages{os.sep}")
    if installed:
        return inside
    if here and file.startswith(here + os.sep):
        return file[len(here) + 1 :]
    return os.path.join(*file.split(os.sep)[-2:])
