"""Deep checks by typeguard for parameters annotated with protocols and records. There is nothing to call.

typeguard finds ``lookup`` by an entry point as soon as it and typedbatch are installed. Unions, optional parameters and
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

__all__: list[str] = []

_BASES = {BatchRecord, BatchProtocol}
Checker = Callable[[Any, Any, tuple[Any, ...], "TypeCheckMemo"], Any]


def lookup(origin: Any, args: tuple[Any, ...], extras: tuple[Any, ...]) -> Checker | None:
    """Return the check for a protocol or record, parametrized or not, or None for any other type."""
    return _check if isinstance(origin, type) and _BASES.intersection(origin.__mro__) else None


def _check(value: Any, origin: Any, args: tuple[Any, ...], memo: TypeCheckMemo) -> None:
    # not at the top, because typeguard imports this module while it is itself being imported
    from typeguard import TypeCheckError

    try:
        found = validate_at(value, origin[args] if args else origin, "typeguard")
    except SchemaError as error:
        raise TypeCheckError(str(error)) from None
    if found is not value:
        raise TypeCheckError(f"has the fields of a {origin.__name__}, but is not one; convert it by validate()")
