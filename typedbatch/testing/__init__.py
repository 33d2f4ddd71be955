"""Batches for tests, built from declarations: a fixed example, or a hypothesis strategy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import TypeForm

from typedbatch._validation.validate import validate_at
from typedbatch.errors import MissingDependencyError
from typedbatch.schema import schema_of
from typedbatch.testing.build import build
from typedbatch.testing.fixed import Fixed
from typedbatch.testing.sizes import Size, known_sizes

__all__ = ["batches", "example"]

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

T = TypeVar("T")


def __dir__() -> list[str]:
    return __all__  # only the public names, not the modules that define them


@overload
def example(schema: TypeForm[T], /, *, fields: Mapping[str, Any] | None = None, **sizes: Size) -> T: ...
@overload  # for jedi, which does not know TypeForm; type checkers never reach this overload
def example(schema: type[T], /, *, fields: Mapping[str, Any] | None = None, **sizes: Size) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def example(schema: Any, /, *, fields: Mapping[str, Any] | None = None, **sizes: Size) -> Any:
    """Return a batch that matches a protocol or record, rules on values included. Every call returns an equal batch.

    ``example(RolloutBatchProtocol, N=8)`` has 8 rows. Floats run from 0 to 1, integers count up, flags are false, and
    all values follow the rules. The default size is 4 for ``N`` and 3 for other names; ``*names`` and ``...`` stand for
    no dimensions. Optional fields are included. For a union, the first member other than None is used.

    Args:
        schema: Protocol or record.
        fields: Values to use for fields, by name; ``"obs.cam"`` in a nested batch.
        **sizes: Sizes of named dimensions; a tuple for ``*obs``.

    Raises:
        DeclarationError: ``schema`` is neither a protocol nor a record.
        SettingError: ``sizes`` or ``fields`` has a name that is not declared, a size is not valid, or no values were
            found for a field. Pass the field in ``fields`` then.
        SchemaError: ``fields`` do not match the declaration.
    """
    declared = schema_of(schema)
    source = Fixed(known_sizes(declared, sizes))
    return validate_at(build(declared, source, fields or {}), schema, "example()", "values")


@overload
def batches(
    schema: TypeForm[T], /, *, fields: Mapping[str, SearchStrategy[Any]] | None = None, **sizes: Any
) -> SearchStrategy[T]: ...
@overload  # for jedi, which does not know TypeForm; type checkers never reach this overload
def batches(  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
    schema: type[T], /, *, fields: Mapping[str, SearchStrategy[Any]] | None = None, **sizes: Any
) -> SearchStrategy[T]: ...
def batches(schema: Any, /, *, fields: Mapping[str, SearchStrategy[Any]] | None = None, **sizes: Any) -> Any:
    """Return a hypothesis strategy for batches that match a protocol or record, rules on values included.

    It needs ``hypothesis``. The size of each named dimension is drawn once for the whole batch. Numbers are finite.

    Args:
        schema: Protocol or record.
        fields: Strategies to use for fields, by name; ``"obs.cam"`` in a nested batch.
        **sizes: Sizes of named dimensions, or strategies for them. Other sizes are drawn, from 0 to 5 for ``N``.

    Raises:
        DeclarationError: ``schema`` is neither a protocol nor a record.
        SettingError: ``sizes`` or ``fields`` has a name that is not declared.
        MissingDependencyError: hypothesis is not installed.
    """
    try:
        from typedbatch.testing import drawn
    except ModuleNotFoundError as error:
        raise MissingDependencyError("strategies need hypothesis; pip install 'typedbatch[testing]'") from error
    return drawn.strategy(schema, dict(fields or {}), sizes)
