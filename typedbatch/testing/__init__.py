"""Batches for tests, made from their declarations: one that is always the same, or many by hypothesis."""

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
    return __all__  # what is public; not the modules that it comes from


@overload
def example(schema: TypeForm[T], /, *, fields: Mapping[str, Any] | None = None, **sizes: Size) -> T: ...
@overload  # jedi knows no TypeForm; it reads this one, and checkers never reach it
def example(schema: type[T], /, *, fields: Mapping[str, Any] | None = None, **sizes: Size) -> T: ...  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
def example(schema: Any, /, *, fields: Mapping[str, Any] | None = None, **sizes: Size) -> Any:
    """A batch that a protocol or record accepts, values included, and the same one at every call.

    ``example(RolloutBatchProtocol, N=8)`` has 8 rows: floats from 0 to 1, counting integers, flags that are false, and
    what the rules on values ask for. Dimensions that are not given are 4 for ``N``, 3 for other names, and none for
    ``*names`` and ``...``. Fields that may be absent are there; of a union the first part that is not None is taken.

    Args:
        schema: the protocol or record.
        fields: values of fields, in place of those that would be made; by name, ``"obs.cam"`` inside a nested batch.
        **sizes: of the dimensions that have names; a tuple for ``*obs``.

    Raises:
        DeclarationError: ``schema`` is neither.
        SettingError: a dimension, or a field, that there is not, sizes that no batch has, or a rule for which no values
            were found: give the field then.
        SchemaError: ``fields`` do not fit.
    """
    declared = schema_of(schema)
    source = Fixed(known_sizes(declared, sizes))
    return validate_at(build(declared, source, fields or {}), schema, "example()", "values")


@overload
def batches(
    schema: TypeForm[T], /, *, fields: Mapping[str, SearchStrategy[Any]] | None = None, **sizes: Any
) -> SearchStrategy[T]: ...
@overload  # jedi knows no TypeForm; it reads this one, and checkers never reach it
def batches(  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
    schema: type[T], /, *, fields: Mapping[str, SearchStrategy[Any]] | None = None, **sizes: Any
) -> SearchStrategy[T]: ...
def batches(schema: Any, /, *, fields: Mapping[str, SearchStrategy[Any]] | None = None, **sizes: Any) -> Any:
    """A hypothesis strategy for batches that a protocol or record accepts, values included. Needs ``hypothesis``.

    Each named dimension is drawn once for the whole batch. Numbers are finite.

    Args:
        schema: the protocol or record.
        fields: strategies for fields, in place of what would be drawn; by name, ``"obs.cam"`` inside a nested batch.
        **sizes: of named dimensions, numbers or strategies for them; the others are drawn, from 0 to 5 for ``N``.

    Raises:
        DeclarationError: ``schema`` is neither.
        SettingError: a dimension, or a field, that there is not.
        MissingDependencyError: hypothesis is not installed.
    """
    try:
        from typedbatch.testing import drawn
    except ModuleNotFoundError as error:
        raise MissingDependencyError("strategies need hypothesis; pip install 'typedbatch[testing]'") from error
    return drawn.strategy(schema, dict(fields or {}), sizes)
