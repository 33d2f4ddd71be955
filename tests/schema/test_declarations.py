"""Which declarations are refused when the class is made, and which are not."""

from __future__ import annotations

import datetime
import enum
import pathlib
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Annotated, Any, ClassVar, Final, Literal, NewType, Optional, Protocol, Self, TypedDict

import annotated_types as at
import numpy as np
import pytest
import torch
from jaxtyping import Float, Float32, Shaped
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from tests.validation.helpers import Array, Cam, load, record
from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    Finite,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    conforms,
    rule,
    schema_of,
    validate,
)
from typedbatch.errors import DeclarationError


def kind_of_value(value: object) -> str:
    """An id that is the same in every process."""
    return type(value).__name__


@pytest.mark.parametrize("declared", [RolloutBatch, RolloutBatchProtocol])
def test_a_batch_is_no_kind_of_array(declared: Any):
    name = declared.__name__
    for batch, shown in ((Cam, "Cam"), (BatchProtocol, "BatchProtocol"), (RolloutBatch[Tensor], "RolloutBatch")):
        with pytest.raises(DeclarationError) as caught:
            declared[batch]
        assert str(caught.value) == (
            f"{name}[{shown}] says that its fields hold {shown} in place of arrays; "
            f"the kind of array comes first: {name}[NDArray[Any], {shown}]"
        )
    assert schema_of(declared[NDArray[Any], Cam])["obs"].nested[0].name == "Cam"


@pytest.mark.parametrize("declared", [RolloutBatch, RolloutBatchProtocol])
def test_an_argument_that_cannot_be_hashed_is_taken_by_typing_and_is_no_schema(declared: Any):
    noted = Annotated[NDArray[Any], ["a note"]]
    made = declared[noted]
    assert made.__args__ == (noted, noted, noted)
    reason = r"an argument of RolloutBatch\S*\[.*\] cannot be a key of a dict: unhashable type: 'list'"
    with pytest.raises(DeclarationError, match=reason):
        schema_of(made)


def refused(reason: str, **hints: Any) -> None:
    with pytest.raises(DeclarationError, match=re.escape(reason)):
        record(**hints)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("?foo", "which is for trees of arrays and not for a field"),
        ("{n}", "which is for arguments of functions; a batch has none"),
        ("N 2*d", "the size '2*d' is computed from 'd', which is not a dimension of any field"),
        ("N 2**", "neither a name nor a number nor an expression of them"),
        ("N f(N)", "neither a name nor a number nor an expression of them"),
        ("N N.real", "neither a name nor a number nor an expression of them"),
        ("N 1.5", "neither a name nor a number nor an expression of them"),
        ("N int('4')", "neither a name nor a number nor an expression of them"),
    ],
)
def test_shapes_that_make_no_sense_in_a_batch(text: str, reason: str):
    refused(reason, x=Shaped[np.ndarray, text])


def test_a_size_in_a_dict_of_arrays_is_computed_from_names_of_fields_too():
    refused("computed from 'd', which is not a dimension", x=dict[str, Shaped[np.ndarray, "N 2*d"]])
    refused("computed from 'd', which is not a dimension of a field before it", x=TWICE, y=Shaped[np.ndarray, "N d"])
    record(y=Shaped[np.ndarray, "N d"], x=TWICE)
    either = Shaped[np.ndarray, "N 2*d"] | Float[np.ndarray, "N"]
    refused("computed from 'd', which is not a dimension of a field before it", x=either, y=Shaped[np.ndarray, "N d"])
    record(x=Shaped[np.ndarray, "N 2*d"] | Tensor | None, y=Shaped[np.ndarray, "N d"])


TWICE = dict[str, Shaped[np.ndarray, "N 2*d"]]


def test_the_refusal_names_the_class_and_the_field():
    with pytest.raises(DeclarationError, match=r"Own\.pos\)$"):

        class Own(BatchRecord):
            cam: Array
            pos: Shaped[np.ndarray, "N {d}"]


def test_what_jaxtyping_refuses_is_refused_when_the_annotation_is_a_string():
    with pytest.raises(DeclarationError, match="Axes should be separated with spaces"):
        load(
            "class Own(BatchRecord):\n    x: 'Float[Array, \"N,d\"]'\nfrom jaxtyping import Float\n".replace(
                "class", "from jaxtyping import Float\nclass", 1
            ),
            strings=False,
        )


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (
            np.ndarray[tuple[int, int], np.float32],
            "float32 is not a dtype; write np.dtype[float32], or NDArray[float32]",
        ),
        (np.ndarray[int, np.dtype[Any]], "int is not a shape; numpy's are tuples"),
        (np.ndarray[tuple[str], Any], "str is not a size; sizes are int, Literal[4], or a NewType of int for a name"),
        (np.ndarray[tuple[Any, ...], np.dtype[int]], "int is not a numpy scalar type"),
        (Float[str, "N"], "str is neither a numpy array nor a torch tensor"),
        (Annotated[Array, at.Ge], "Ge is a class; write an instance, as in Ge(0)"),
        (Annotated[Array, at.Gt(5), at.Lt(3)], "no value is both above 5 and below 3"),
        (Annotated[Any, Finite], "rules need a kind of value that they apply to"),
        (5, "5 is not a type"),
        (np.zeros(2), "array([0., 0.]) is not a type"),
        ((Array, Tensor), "is not a type"),
    ],
    ids=kind_of_value,
)
def test_annotations_that_are_mistakes(hint: Any, reason: str):
    refused(reason, x=hint)


@pytest.mark.parametrize("value", [Float32[np.ndarray, "N"], np.ndarray, NDArray[Any], Cam], ids=kind_of_value)
def test_a_type_that_is_assigned_in_place_of_an_annotation(value: Any):
    """The field would be lost without a word."""
    with pytest.raises(DeclarationError, match=r"Own\.rew has a type as its value; to declare a field write rew:"):
        type("Own", (BatchRecord,), {"rew": value})


def test_a_class_inside_a_record_is_no_such_mistake():
    class Own(BatchRecord):
        class Inner(BatchRecord):
            x: Array

        limit: ClassVar[type] = np.ndarray
        inner: Array

    assert [field.name for field in schema_of(Own)] == ["inner"]


def test_protocols_are_read_when_they_are_made_too():
    with pytest.raises(DeclarationError, match="which is for trees of arrays"):

        class Own(BatchProtocol, Protocol):
            @property
            def x(self) -> Shaped[np.ndarray, "?N"]: ...


def test_a_rule_needs_words():
    with pytest.raises(DeclarationError, match=re.escape('@rule("adv has mean 0")')):

        class Own(BatchRecord):
            @rule  # type: ignore[arg-type]
            def centred(self) -> bool:
                return True


def test_names_that_are_defined_later_are_read_at_the_first_use():
    module = load(
        "class Own(BatchRecord):\n    inner: 'Later'\nclass Later(BatchRecord):\n    x: Array\n", strings=False
    )
    assert conforms(Batch(inner=Batch(x=[1.0])), module.Own)


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (Float32, "Float32 needs an array type and a shape"),
        (Shaped[np.ndarray, "N min(N)"], "neither a name nor a number"),
        (Shaped[np.ndarray, "N N@N"], "neither a name nor a number"),
        (np.ndarray[tuple[Literal["N"]], Any], "is not a size"),
        (np.ndarray[tuple[Literal[True]], Any], "is not a size"),
    ],
    ids=kind_of_value,
)
def test_more_mistakes(hint: Any, reason: str):
    refused(reason, x=hint)


def test_an_alias_that_stands_for_itself():
    with pytest.raises(DeclarationError, match="is defined by itself; only a protocol or record may contain itself"):
        load("Nest = Array | dict[str, 'Nest']\nclass Own(BatchRecord):\n    x: Nest\n", strings=False)


def test_a_name_in_quotes_inside_another_annotation():
    module = load(
        "class Own(BatchRecord):\n    x: dict[str, 'Later']\nclass Later(BatchRecord):\n    x: Array\n", strings=False
    )
    assert conforms(Batch(x={"a": {"x": [1.0]}}), module.Own)
    assert not conforms(Batch(x={"a": {"y": [1.0]}}), module.Own)


def test_a_schema_without_fields_is_one_schema():
    empty = record()
    schema = schema_of(empty)
    record(inner=empty)
    assert schema_of(empty) is schema


def test_a_schema_with_a_note_that_cannot_be_hashed():
    assert conforms(Batch(cam=[1.0]), Annotated[Cam, ["a note"]])


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        (int, "so int would be wrong; write NDArray[np.int64] for one number per row, np.int64 for a single number"),
        (float, "write NDArray[np.float64] for one number per row, np.float64 for a single number, or store it in "),
        (bool | None, "so bool would be wrong; write NDArray[np.bool_]"),
        (Tensor | float, "so float would be wrong"),
        (dict[str, float], "so float would be wrong"),
        (list[Any], "so list[Any] would be wrong; write NDArray[np.object_] for an object per row, Ragged for"),
        (Sequence[str], "so Sequence[str] would be wrong"),
        (tuple[int, ...], "would be wrong"),
        (list[Cam], "or the record itself for batches of it"),
    ],
    ids=kind_of_value,
)
def test_numbers_and_lists_which_a_batch_makes_arrays_of(hint: Any, reason: str):
    refused(reason, x=hint)


class Colour(enum.Enum):
    RED = 1


class Options(TypedDict):
    x: int


Id = NewType("Id", int)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Colour, Colour.RED),
        (Options, {"x": 1}),
        (pathlib.Path, pathlib.Path(".")),
        (datetime.datetime, datetime.datetime(2020, 1, 1)),
        (Callable[[int], str], str),
        (type[Array], np.ndarray),
        (torch.nn.Module, torch.nn.Linear(1, 1)),
        (torch.nn.Parameter, torch.nn.Parameter(torch.zeros(2))),
        (np.random.Generator, np.random.default_rng(0)),
        (Id | Array, 3),
        (Annotated[Array, "any note", at.doc("words")] if hasattr(at, "doc") else Annotated[Array, "note"], [1.0]),
        (Optional[Annotated[Array, at.Ge(0)]], None),  # noqa: UP045
        (Final[Array], [1.0]),
        (Literal["a"] | Array, "a"),
        (dict[str, Float[np.ndarray, "N"]], {"x": [1.0]}),
        (dict[str, Any], {"x": [1.0]}),
        (list[str] | Array, ["a", "b"]),
        (np.ndarray[tuple[Id, Literal[2]], Any], np.zeros((3, 2))),
        (np.ndarray[Any, np.dtypes.Float64DType], [1.0]),
        (NDArray[np.float32 | np.float64], [1.0]),
        (np.datetime64, np.datetime64("2020-01-01")),
        (ArrayLike, [[1.0, 2.0]]),
        (ArrayLike, 3),
        (Iterable[int], [1, 2]),
        (Collection[float], np.zeros((2, 2))),
        (NDArray[np.str_], ["a", "b"]),
        (bytearray, bytearray(b"ab")),
        (Array | bool, True),
        (complex | Array, 1j),
    ],
    ids=kind_of_value,
)
def test_declarations_that_people_write(hint: Any, value: Any):
    assert conforms(record(x=hint)(x=value), record(x=hint))


def test_a_record_of_its_own_kind():
    class Node(BatchRecord):
        value: Array
        child: Self | None = None

    assert [field.name for field in schema_of(Node)] == ["value", "child"]


@pytest.mark.parametrize(
    "text",
    [
        "10**10**10", "N*10**10**10", "(10**10)**(10**10)", "10**10**3", "9**-9**9", "1//0", "2-3",
        "+".join(["1"] * 9000),
    ],
    ids=lambda text: text[:20],
)  # fmt: skip
def test_a_size_that_nobody_can_compute_is_refused_before_it_is_computed(text: str):
    with pytest.raises(DeclarationError, match=r"^the shape 'N .*, which is n.*\(types\.Local\.x\)$"):
        record(x=Float[np.ndarray, f"N {text}"])


@pytest.mark.parametrize("text", ["N**N", "N**N**N", "2**N", "2**(N*N)", "N**N*N**N", "min(N**N, 5)", "-(N**-N)"])
def test_a_power_beyond_any_size_is_no_size_when_a_batch_is_checked(text: str):
    declared = record(y=Float[np.ndarray, "N"], x=Float[np.ndarray, f"N {text.replace(' ', '')}"])
    batch = Batch(y=np.zeros(10**6), x=np.zeros((10**6, 5)))
    assert not conforms(batch, declared)
    with pytest.raises(
        SchemaError, match=r"batch.x  a size of 5, expected .*, which is not a size, as N is 1000000\s+\[TB304"
    ):
        validate(batch, declared)


def test_powers_of_sizes_are_computed():
    declared = record(y=Float[np.ndarray, "N M"], x=Float[np.ndarray, "N M**2 2**M//2"])
    assert conforms(Batch(y=np.zeros((2, 3)), x=np.zeros((2, 9, 4))), declared)
    assert not conforms(Batch(y=np.zeros((2, 3)), x=np.zeros((2, 9, 5))), declared)


def test_what_jaxtyping_refuses_in_quotes_names_the_field():
    source = "from jaxtyping import Float\nclass R(BatchRecord):\n    x: Float[Array, 'N __import__']"
    reason = r"^cannot read the annotation .*__import__'\]\": Do not use _ twice .* not allowed \(.*\.R\.x\)$"
    with pytest.raises(DeclarationError, match=reason):
        load(source, strings=True)


def test_a_protocol_does_not_pass_over_names_that_no_field_can_have():
    with pytest.raises(DeclarationError, match=r"a field cannot be called '__x__', as names .*\(.*Hidden\.__x__\)$"):

        class Hidden(BatchProtocol, Protocol):
            __x__: Float[np.ndarray, "N"]

    with pytest.raises(DeclarationError, match=r"a field cannot be called '__x__', as names .*\(.*Computed\.__x__\)$"):

        class Computed(BatchProtocol, Protocol):
            @property
            def __x__(self) -> Float[np.ndarray, "N"]: ...

    class Fine(BatchProtocol, Protocol):
        __note__: ClassVar[str]
        _x: Float[np.ndarray, "N"]

    assert [field.name for field in schema_of(Fine).fields] == ["_x"]
