"""Batches built for a schema, with sizes and values from a source: fixed ones, or those drawn by hypothesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from typedbatch._core.kinds import ARRAY, BATCH, DISTRIBUTION, NONE, RAGGED, TENSOR
from typedbatch._markers import Steps
from typedbatch._ops.conversion import torch_side
from typedbatch.batch import Batch
from typedbatch.errors import SettingError, did_you_mean
from typedbatch.ragged import Ragged
from typedbatch.rules import Rule
from typedbatch.schema.dims import ROWS, Dim, Shape, Sort
from typedbatch.schema.fields import WITH_ROWS, Field, Option, Schema
from typedbatch.schema.first_dims import first_dims
from typedbatch.testing.fixed import example_meta
from typedbatch.testing.sizes import Sizes

_DEEPEST = 3


class Source(Protocol):
    """A source of sizes and values."""

    sizes: Sizes

    def lengths(self, count: int) -> Sequence[int]:
        """Return the lengths of ``count`` sequences."""
        ...

    def choose(self, choices: Sequence[Any]) -> Any:
        """Return one of the choices."""

    def given(self, value: Any) -> Any:
        """Return the value of a field for which the caller has passed ``value``."""

    def array(self, name: str, dtypes: Sequence[Any], shape: tuple[int, ...], rules: Sequence[Rule]) -> Any:
        """Return an array of one of these dtypes, whose values follow the rules."""


def build(schema: Schema, source: Source, fields: Mapping[str, Any]) -> Batch:
    """Build a batch for a schema.

    Raises:
        SettingError: the schema does not have a field in ``fields``, or no value is known for a field.
    """
    builder = _Builder(source, fields)
    batch = builder.batch(schema, "", 0)
    if unknown := [name for name in fields if name not in builder.used]:
        hint = did_you_mean(unknown[0], [field.name for field in schema])
        raise SettingError(f"{schema.name} has no field {unknown[0]!r}{hint}")
    return batch


class _Builder:
    """A builder of a batch and all batches nested in it."""

    def __init__(self, source: Source, fields: Mapping[str, Any]) -> None:
        self._source = source
        self._fields = fields
        self.used: set[str] = set()
        """The names of fields whose value the caller has passed."""

    def batch(self, schema: Schema, path: str, depth: int) -> Batch:
        values = {}
        for field in schema:
            here = f"{path}{field.name}"
            if here in self._fields:
                self.used.add(here)
                values[field.name] = self._source.given(self._fields[here])
            elif not field.optional or depth < _DEEPEST or NONE in (field.kinds or ()):
                values[field.name] = self._value(field, here, depth)
        batch = Batch(values)
        if schema.meta is not None:
            here = f"{path}meta"
            self.used.add(here)
            given = self._fields.get(here)
            batch.meta = example_meta(schema.meta, here) if given is None else self._source.given(given)
        for rule in schema.rules:
            if (adjust := getattr(rule.holds, "__typedbatch_adjust__", None)) is not None:
                adjust(batch, {name for name in values if f"{path}{name}" in self._fields})
        return batch

    def _value(self, field: Field, path: str, depth: int) -> Any:
        if not field.options:
            return self._array(Option(ARRAY, shape=WITH_ROWS), field.name, path)
        if depth >= _DEEPEST and NONE in (field.kinds or ()):
            return None
        options = sorted(field.options, key=lambda option: option.kind is NONE)
        if depth >= _DEEPEST:
            options = [option for option in options if option.schema is None] or options
        option = self._source.choose(options)
        if option.kind is NONE:
            return None
        if option.choices:
            return self._source.choose(option.choices)
        if option.kind is BATCH:
            return self._nested(option, path, depth)
        if option.kind is RAGGED:
            return self._ragged(option, path, depth)
        if option.kind in (ARRAY, TENSOR):
            return self._array(_per_step(option) if field.steps is Steps.ONE else option, field.name, path)
        if option.kind is DISTRIBUTION:
            return self._distribution(option, path)
        if option.cls is None or option.cls is object or option.cls is str:
            return "text"
        try:
            return option.cls()
        except Exception as error:  # the constructor of a user's class may raise anything
            reason = f"{option.cls.__name__}() failed: {error}; pass a value: fields={{{path!r}: ...}}"
            raise SettingError(reason, path) from error

    def _nested(self, option: Option, path: str, depth: int) -> Batch:
        if option.schema is not None:
            return self.batch(option.schema, f"{path}.", depth + 1)
        if option.each is None or depth >= _DEEPEST:
            return Batch()
        return Batch(a=self._value(option.each, f"{path}.a", depth + 1))

    def _ragged(self, option: Option, path: str, depth: int) -> Ragged[Batch]:
        sizes = self._source.sizes
        (count,) = sizes.shape(Shape((Dim(Sort.NAMED, ROWS),)))
        lengths = self._source.lengths(count)
        names = {ROWS} if option.schema is None else {name for _, dims in first_dims(option.schema) for name in dims}
        self._source.sizes = sizes.within(dict.fromkeys(names, sum(lengths)))
        inner = Batch() if option.schema is None else self.batch(option.schema, f"{path}.values.", depth + 1)
        self._source.sizes = sizes
        return Ragged(inner if inner.__dict__ else Batch(a=np.zeros(sum(lengths))), lengths)

    def _array(self, option: Option, name: str, path: str) -> Any:
        is_tensor = option.kind is TENSOR
        candidates = [getattr(torch_side().torch, name) for name in _TENSOR_DTYPES] if is_tensor else _ARRAY_DTYPES
        dtypes = [dtype for dtype in candidates if option.dtypes is None or option.dtypes[dtype]]
        if option.dtypes is None:
            dtypes = dtypes[:3]  # float32, int64, bool
        usual = option.dtypes.usual() if option.dtypes is not None and not is_tensor else None
        if not dtypes and usual is None:
            raise SettingError(f"no example is known of {option}; pass a value: fields={{{path!r}: ...}}")
        shape = self._source.sizes.shape(option.shape)
        try:
            array = self._source.array(name, dtypes or [usual], shape, option.rules)
        except SettingError as error:
            raise SettingError(f"{error.reason}; pass a value: fields={{{path!r}: ...}}", path) from None
        return np.ma.array(array) if option.cls is np.ma.MaskedArray else array

    def _distribution(self, option: Option, path: str) -> Any:
        from torch import distributions, ones, zeros

        make: Any = distributions  # Any because torch's constructors have no annotations
        size = self._source.sizes.shape(option.shape)
        checked = 0 not in size  # torch fails to check parameters without rows
        known = {
            "Categorical": lambda: make.Categorical(logits=zeros(*size, 2), validate_args=checked),
            "Normal": lambda: make.Normal(zeros(size), ones(size)),
            "Bernoulli": lambda: make.Bernoulli(logits=zeros(size)),
            "Beta": lambda: make.Beta(ones(size), ones(size), validate_args=checked),
            "Independent": lambda: make.Independent(make.Normal(zeros(*size, 2), ones(*size, 2)), 1),
        }
        name = "Categorical" if option.cls is None or option.cls is distributions.Distribution else option.cls.__name__
        if name not in known:
            raise SettingError(f"no example is known of a {name}; pass a value: fields={{{path!r}: ...}}", path)
        return known[name]()


def _per_step(option: Option) -> Option:
    """Return the option for one number per step, without the axes that its shape leaves open."""
    shape = option.shape
    is_open = shape.variadic is not None and shape.dims[shape.variadic].sort is Sort.REST
    return replace(option, shape=Shape((*(shape.before or WITH_ROWS.before), *shape.after))) if is_open else option


_ARRAY_DTYPES = [
    np.dtype(name)
    for name in (
        *("float32", "int64", "bool", "float64", "int32", "uint8", "int16", "int8", "uint16", "uint32", "uint64"),
        *("float16", "complex64", "complex128", "longdouble", "datetime64[s]", "timedelta64[s]", "object"),
    )
]


_TENSOR_DTYPES = (
    *("float32", "int64", "bool", "float64", "int32", "uint8", "int16", "int8", "float16", "bfloat16"),
    *("complex64", "complex128"),
)
