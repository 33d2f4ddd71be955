"""typeguard: deep checks of parameters that are annotated with protocols and records. Nothing has to be called.

typeguard finds ``lookup`` by an entry point, once it and typedbatch are installed. Unions, optional parameters and
containers of batches work as for any other type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from typedbatch._validation.validate import validate_at
from typedbatch.errors import SchemaError
from typedbatch.protocols import BatchProtocol
from typedbatch.records import BatchRecord

if TYPE_CHECKING:
    from typeguard import TypeCheckMemo

__all__: list[str] = []  # typeguard finds ``lookup`` by its entry point

_BASES = {BatchRecord, BatchProtocol}
Checker = Callable[[Any, Any, tuple[Any, ...], "TypeCheckMemo"], Any]


def lookup(origin: Any, args: tuple[Any, ...], extras: tuple[Any, ...]) -> Checker | None:
    """The check for a protocol or record, parametrised or not; None for any other type."""
    return _check if isinstance(origin, type) and _BASES.intersection(origin.__mro__) else None


def _check(value: Any, origin: Any, args: tuple[Any, ...], memo: TypeCheckMemo) -> None:
    from typeguard import TypeCheckError  # not above: typeguard imports this module while it is being imported itself

    try:
        found = validate_at(value, origin[args] if args else origin, "typeguard")
    except SchemaError as error:
        raise TypeCheckError(str(error)) from None
    if found is not value:
        raise TypeCheckError(f"has the fields of a {origin.__name__}, but is not one; validate() makes it one")
