"""Hints for values of another kind than declared: convert the batch, accept both kinds, declare a nested batch."""

from __future__ import annotations

from typing import Any

from typedbatch._core.kinds import ARRAY, BATCH, KINDS, TENSOR
from typedbatch.schema.fields import Field, Option, Schema
from typedbatch.schema.paths import RETURN, Path, child


class Proposals:
    """The hints for problems of a batch with a schema."""

    def __init__(self, schema: Schema, batch: Any) -> None:
        self.schema: Schema = schema
        self.batch: Any = batch

    def hint(self, value: Any, field: Field, path: Path) -> str:
        """Return the hint for a value of a kind that the field does not take; empty if there is nothing to suggest."""
        kind, takes = KINDS[type(value)], (field.kinds or frozenset()) & {ARRAY, TENSOR}
        if not takes:
            return ""
        if kind is BATCH:
            return self._nested(field, path)
        if kind not in (ARRAY, TENSOR) or (kind is ARRAY and value.dtype.kind not in "biufc"):
            return ""  # convert() would fail: no tensor can hold such values
        library = "torch" if kind is TENSOR else "numpy"
        mixed = "" if field.parameter is None else self._mixed()
        return f"it is of the {library} kind; convert(batch, {self.schema.name}) changes that{mixed}"

    def cast(self, option: Option, path: Path) -> str:
        """Return the expression that casts the value at ``path``; empty if the option allows several dtypes."""
        dtype = option.dtypes.words if option.dtypes is not None else ""
        if not dtype.isidentifier():
            return ""
        if option.kind is TENSOR:
            return f"batch.{path}.to(torch.{dtype})"
        return f"batch.{path}.astype({'bool' if dtype == 'bool' else repr(dtype)})"

    def _mixed(self) -> str:
        """Return a declaration that takes arrays and tensors, for a batch that holds both; else an empty string."""
        single = [field for field in self.schema if len((field.kinds or frozenset()) & {ARRAY, TENSOR}) == 1]
        kinds = {KINDS[type(self.batch.__dict__.get(field.name))] for field in single}
        if not {ARRAY, TENSOR} <= kinds:
            return ""
        both = ", ".join(["np.ndarray | torch.Tensor", *_arguments(self.schema.name)[1:]])
        return f"  arrays and tensors are mixed; {self.schema.target.__name__}[{both}] takes both"

    def _nested(self, field: Field, path: Path) -> str:
        """Return the declaration of a field that is a nested batch."""
        if field.parameter is None:
            source = f"batch{'' if str(path).startswith('[') else '.'}{path}"
            return f"it is nested; infer_schema({source}) writes a declaration of it"
        if field.parameter == 0 or path.outer is not None:
            return ""
        parameters: tuple[Any, ...] = getattr(self.schema.target, "__parameters__", ())
        record = f"My{parameters[field.parameter].__name__.removesuffix('_co').title()}"
        given = _arguments(self.schema.name)
        kind = given[0] if given else "np.ndarray"
        before = [kind, *given[1 : field.parameter]]
        before += [kind] * (field.parameter - len(before))
        declared = f"{self.schema.target.__name__}[{', '.join([*before, record])}]"
        first = next(
            other
            for other in self.schema
            if other.parameter == field.parameter and KINDS[type(self.batch.__dict__.get(other.name))] is BATCH
        )
        source = child("batch", first.name)
        return f"declare nested ones, as in {declared};  infer_schema({source}, {record!r}) writes {record}"


class CallProposals(Proposals):
    """The hints for problems of the arguments of a call."""

    def hint(self, value: Any, field: Field, path: Path) -> str:
        kind, takes = KINDS[type(value)], (field.kinds or frozenset()) & {ARRAY, TENSOR}
        if kind not in (ARRAY, TENSOR) or not takes:
            return ""
        return f"it is of the {'torch' if kind is TENSOR else 'numpy'} kind"

    def cast(self, option: Option, path: Path) -> str:
        is_argument = str(path).isidentifier() and path.name != RETURN
        return super().cast(option, path).removeprefix("batch.") if is_argument else ""


def _arguments(name: str) -> list[str]:
    """Return the arguments in the brackets of a schema's name, as they are written in code."""
    inside = name.partition("[")[2].removesuffix("]")
    found, depth = [""], 0
    for letter in inside:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [argument.strip().replace("ndarray", "np.ndarray") for argument in found] if inside else []
