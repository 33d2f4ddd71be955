"""beartype: deep checks of parameters that are annotated with protocols and records.

``@beartype(conf=checking_batches())``, or ``beartype_this_package(conf=checking_batches())`` for a whole package.
Without it, beartype refuses functions that are annotated with protocols, and looks at the class of a record alone.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from beartype import BeartypeConf, FrozenDict
from beartype.vale import Is

import typedbatch
from typedbatch import protocols, records
from typedbatch._validation.validate import conforms
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError
from typedbatch.schema import class_of, is_schema


def checking_batches(*schemas: Any, **options: Any) -> BeartypeConf:
    """A configuration of beartype that checks the structure of batches.

    Args:
        *schemas: protocols and records beside those of typedbatch: your own, and each parametrised one that is in an
            annotation, ``RolloutBatchProtocol[Tensor]``.
        **options: of ``BeartypeConf``.

    Raises:
        DeclarationError: one of them is neither protocol nor record.
    """
    for schema in schemas:
        if not is_schema(schema):
            raise DeclarationError(f"checking_batches() takes protocols and records, got {schema!r}")
    known = [*_OURS, *schemas]
    return BeartypeConf(hint_overrides=FrozenDict({schema: _deep(schema) for schema in known}), **options)


_OURS = [
    value
    for value in vars(typedbatch).values()
    if isinstance(value, type) and value.__module__ in (protocols.__name__, records.__name__) and is_schema(value)
]


def _deep(schema: Any) -> Any:
    cls = class_of(schema)
    validator: Any = Is
    return Annotated[object, validator[partial(_is_one, schema, cls if Batch in cls.__mro__ else object)]]


def _is_one(schema: Any, cls: type, value: object) -> bool:
    return isinstance(value, cls) and conforms(value, schema)
