"""Declaration of protocols and records: their location in the source is recorded, and their annotations are read."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import lru_cache
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from typedbatch.errors import DeclarationError, SettingError

if TYPE_CHECKING:
    from typedbatch.schema.fields import Field

C = TypeVar("C", bound=type)

places: dict[type, tuple[str, int]] = {}
"""File and line of each declared class."""

_READ_WHEN_USED = ("typedbatch.protocols", "typedbatch.records")


class SeparateSizes:
    """Marker in ``Annotated`` for a batch whose sizes are independent of sizes with the same names elsewhere.

    ::

        class Side(BatchRecord):
            ids: Int[Tensor, "N T"]

        class Pairs(BatchRecord):
            chosen: Annotated[Side, SeparateSizes]
            rejected: Annotated[Side, SeparateSizes]

    ``T`` is one size in ``chosen`` and another in ``rejected``, so the two may differ in length. The rows ``N`` are
    those of the whole batch. For an argument or a result, as in ``test: Annotated[Ready, SeparateSizes]``, all sizes
    are independent, the rows too. Records that are nested in the batch share its sizes.
    """


class DeclaredFields(dict[type, frozenset[str]]):
    """Names of the fields that a class of batches declares in a certain way, found once for each class."""

    def __init__(self, is_wanted: Callable[[Field], bool]) -> None:
        super().__init__()
        self.is_wanted: Callable[[Field], bool] = is_wanted

    def __missing__(self, cls: type) -> frozenset[str]:
        from typedbatch.schema import schema_of  # the schema is a layer above this module

        try:
            self[cls] = frozenset(field.name for field in schema_of(cls).fields if self.is_wanted(field))
        except DeclarationError:  # It may name a class that is defined later; validate() reports what is wrong.
            return frozenset()
        return self[cls]


object_fields = DeclaredFields(lambda field: field.takes_objects())
"""Fields that are columns of objects, by class."""

absent_fields = DeclaredFields(lambda field: field.takes_none() and not field.takes_objects())
"""Fields that may be None and are not columns of objects, by class."""

number_fields = DeclaredFields(lambda field: field.takes_numbers())
"""Fields that are arrays or tensors of a dtype that a list of numbers can become, by class."""

versions: dict[type, int] = {}
"""Version of each class that :func:`schema_version` decorates."""


def schema_version(version: int) -> Callable[[C], C]:
    """Set the version of a protocol or record, which is stored in its files; without it the version is 1.

    Write ``@schema_version(2)`` above a class whose fields have changed. Then :func:`typedbatch.files.load` refuses
    files that were saved as version 1.

    Args:
        version: Integer of at least 1.

    Raises:
        SettingError: ``version`` is something else.
    """
    if type(version) is not int or version < 1:
        raise SettingError(f"the version of a schema must be an integer of at least 1, got {version!r}")

    def note(cls: C) -> C:
        versions[cls] = version
        return cls

    return note


def declare(cls: type) -> None:
    """Record where a class is declared, and read its declaration."""
    frame = sys._getframe(1)
    hooks = ("__init_subclass__", "__new__")
    # The globals of code that exec() runs may lack a name.
    while frame.f_back and (frame.f_code.co_name in hooks or frame.f_globals.get("__name__") != cls.__module__):
        frame = frame.f_back
    if frame.f_globals.get("__name__") == cls.__module__:
        places[cls] = frame.f_code.co_filename, frame.f_lineno
    if cls.__module__ not in _READ_WHEN_USED:  # ``import typedbatch`` does not wait for what reads its own
        from typedbatch.schema.read import read_at_declaration

        read_at_declaration(cls)


def outside(frame: FrameType) -> FrameType:
    """Return the innermost frame, from ``frame`` outwards, that is not of this package."""
    while is_own(frame) and frame.f_back is not None:
        frame = frame.f_back
    return frame


def is_own(frame: FrameType) -> bool:
    """Return whether a frame is of this package."""
    own: bool = frame.f_globals.get("__name__", "").partition(".")[0] == "typedbatch"
    return own


def pydantic_schema(cls: type, source: Any, handler: object) -> Any:
    """Return the schema by which pydantic validates a field of this type, as ``__get_pydantic_core_schema__``."""
    from typedbatch.bridges.pydantic import schema_for

    return schema_for(source)


def show_place(file: str, line: int) -> str:
    """Return a location as ``"myalgo/ppo.py:88"``.

    The path is relative to the current directory or to ``site-packages``, or else is the last folder and the file.
    """
    try:
        here = os.getcwd()
    except OSError:  # The directory has been removed.
        here = ""
    return f"{_short(file, here)}:{line}"


@lru_cache(maxsize=256)
def _short(file: str, here: str) -> str:
    if file.startswith("<"):  # The code is not in a file, as in a console or a doctest.
        return file
    _, installed, inside = file.rpartition(f"site-packages{os.sep}")
    if installed:
        return inside
    if here and file.startswith(here + os.sep):
        return file[len(here) + 1 :]
    return os.path.join(*file.split(os.sep)[-2:])
