"""What to write where a value is of another kind than declared: convert it, take both kinds, declare what is nested."""

from __future__ import annotations

from typing import Any

from typedbatch._tree.leaves import ARRAY, BATCH, KINDS, TENSOR, Kind
from typedbatch.schema.fields import Field, Option, Schema
from typedbatch.schema.names import RETURN, Path, child

_BOTH = "np.ndarray | torch.Tensor"


class Proposals:
    """Words for the problems of one batch with one schema."""

    def __init__(self, schema: Schema, batch: Any) -> None:
        self.schema: Schema = schema
        self.batch: Any = batch

    def hint(self, value: Any, field: Field, path: Path) -> str:
        """What to do about a value of a kind that the field does not take; empty if that is not known."""
        kind, takes = KINDS[type(value)], (field.kinds or frozenset()) & {ARRAY, TENSOR}
        if not takes:
            return ""
        if kind is BATCH:
            return self._nested(field, path)
        if kind not in (ARRAY, TENSOR) or (kind is ARRAY and value.dtype.kind not in "biufc"):
            return ""  # no tensor can hold it
        there = "torch" if kind is TENSOR else "numpy"
        mixed = "" if field.parameter is None else self._mixed()
        return f"it is of the {there} kind; convert(batch, {self.schema.name}) changes that{mixed}"

    def cast(self, option: Option, path: Path) -> str:
        """What to write, where just one dtype is asked for."""
        return _cast(option, f"batch.{path}")

    def _mixed(self) -> str:
        """For a batch that holds arrays and tensors, a declaration that takes both; empty for any other."""
        kinds = {KINDS[type(self.batch.__dict__.get(field.name))] for field in self.schema if len(_kinds(field)) == 1}
        if not {ARRAY, TENSOR} <= kinds:
            return ""
        both = _with_arguments(self.schema, [_BOTH, *_arguments(self.schema.name)[1:]])
        return f"  arrays and tensors are mixed; {both} takes both"

    def _nested(self, field: Field, path: Path) -> str:
        """How to declare a field that is a nested batch."""
        if field.parameter is None:
            source = f"batch{'' if str(path).startswith('[') else '.'}{path}"
            return f"it is nested; infer_schema({source}) writes a declaration of it"
        if field.parameter == 0 or path.outer is not None:
            return ""
        mine = f"My{_parameters(self.schema)[field.parameter].__name__.removesuffix('_co').title()}"
        given = _arguments(self.schema.name)
        kind = given[0] if given else "np.ndarray"
        before = [kind, *given[1 : field.parameter]]
        before += [kind] * (field.parameter - len(before))
        declared = _with_arguments(self.schema, [*before, mine])
        first = next(one for one in self.schema if one.parameter == field.parameter and self._is_nested(one))
        source = child("batch", first.name)
        return f"declare nested ones, as in {declared};  infer_schema({source}, {mine!r}) writes {mine}"

    def _is_nested(self, field: Field) -> bool:
        return KINDS[type(self.batch.__dict__.get(field.name))] is BATCH


class CallProposals(Proposals):
    """Words for the problems of arguments."""

    def hint(self, value: Any, field: Field, path: Path) -> str:
        kind, takes = KINDS[type(value)], (field.kinds or frozenset()) & {ARRAY, TENSOR}
        if kind not in (ARRAY, TENSOR) or not takes:
            return ""
        return f"it is of the {'torch' if kind is TENSOR else 'numpy'} kind"

    def cast(self, option: Option, path: Path) -> str:
        return _cast(option, str(path)) if str(path).isidentifier() and path.name != RETURN else ""


def _cast(option: Option, value: str) -> str:
    dtype = option.dtypes.words if option.dtypes is not None else ""
    if not dtype.isidentifier():
        return ""
    return f"{value}.to(torch.{dtype})" if option.kind is TENSOR else f"{value}.astype({dtype!r})"


def _kinds(field: Field) -> frozenset[Kind]:
    return (field.kinds or frozenset()) & {ARRAY, TENSOR}


def _parameters(schema: Schema) -> tuple[Any, ...]:
    return getattr(schema.target, "__parameters__", ())


def _with_arguments(schema: Schema, arguments: list[str]) -> str:
    return f"{schema.target.__name__}[{', '.join(arguments)}]"


def _arguments(name: str) -> list[str]:
    """What stands in the brackets of a schema's name, as it is written in code."""
    inside = name.partition("[")[2].removesuffix("]")
    found, depth = [""], 0
    for letter in inside:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip().replace("ndarray", "np.ndarray") for one in found] if inside else []
