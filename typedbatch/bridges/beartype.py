"""Deep checks by beartype for parameters annotated with protocols and records.

Use ``@beartype(conf=checking_batches())``, or ``beartype_this_package(conf=checking_batches())`` for a whole package.
Without this configuration, beartype refuses functions that are annotated with protocols, and checks only the class of a
record.
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
from typedbatch.schema.read import is_schema
from typedbatch.schema.values import class_of


def checking_batches(*schemas: Any, **options: Any) -> BeartypeConf:
    """Return a beartype configuration that checks the structure of batches.

    Args:
        *schemas: Protocols and records besides those of typedbatch: your own, and each parametrized one that an
            annotation uses, such as ``RolloutBatchProtocol[Tensor]``.
        **options: Options of ``BeartypeConf``.

    Raises:
        DeclarationError: one of ``schemas`` is neither a protocol nor a record.
    """
    for schema in schemas:
        if not is_schema(schema):
            raise DeclarationError(f"checking_batches() takes protocols and records, got {schema!r}")
    validator: Any = Is
    overrides: dict[Any, Any] = {}
    for schema in (*_TYPEDBATCH_SCHEMAS, *schemas):
        cls = class_of(schema)
        test = partial(_is_instance, schema, cls if Batch in cls.__mro__ else object)
        overrides[schema] = Annotated[object, validator[test]]
    return BeartypeConf(hint_overrides=FrozenDict(overrides), **options)


_OWN_MODULES = (protocols.__name__, records.__name__)
_PUBLIC = [getattr(typedbatch, name) for name in typedbatch.__all__]
_TYPEDBATCH_SCHEMAS = [one for one in _PUBLIC if getattr(one, "__module__", "") in _OWN_MODULES]


def _is_instance(schema: Any, cls: type, value: object) -> bool:
    return isinstance(value, cls) and conforms(value, schema)
