"""Forms of declarations, and what each of them requires."""

from __future__ import annotations

from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NewType,
    Protocol,
    Union,
    runtime_checkable,
)

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical

from tests.validation.helpers import Array, Cam, CamPos, N, kinds, paths, record, refused
from typedbatch import (
    ActBatch,
    ActBatchProtocol,
    Batch,
    BatchProtocol,
    BatchRecord,
    conforms,
    validate,
)
from typedbatch.errors import DeclarationError, FieldNameError
from typedbatch.schema import schema_of


def test_of_two_bases_the_first_declares_the_field_as_everywhere_in_python():
    class One(BatchRecord):
        value: Array

    class Two(BatchRecord):
        value: Tensor | None = None

    class Both(One, Two): ...

    assert kinds(Both) == {"value": {"ARRAY"}}
    assert not schema_of(Both).fields[0].optional


def test_in_a_diamond_the_refined_declaration_wins():
    class Base(BatchRecord):
        value: Array | None = None

    class Refined(Base):
        value: Array

    class Other(Base):
        more: Array

    class Both(Refined, Other): ...

    assert list(Both.__record_fields__) == ["value", "more"]
    assert kinds(Both) == {"value": {"ARRAY"}, "more": {"ARRAY"}}
    with pytest.raises(TypeError, match="missing 'value'"):
        Both(more=np.zeros(2))  # type: ignore[call-arg]
    assert paths(Batch(more=np.zeros(2)), Both) == [("value", "TB101")]


def test_a_record_that_names_its_protocol_still_reads_its_own_fields():
    """A protocol's properties are data descriptors, which win over the instance's ``__dict__``."""
    act = np.zeros(2)
    for bases in ((BatchRecord, ActBatchProtocol), (ActBatch, ActBatchProtocol), (ActBatchProtocol, ActBatch)):
        try:
            cls = record(*bases, act=Array)
        except DeclarationError:
            continue  # refused when the class is made: just as good
        assert cls(act=act).act is act
        assert validate(Batch(act=act), cls).act is act


@pytest.mark.parametrize("name", ["plain", "mro"])
def test_names_that_are_no_public_member_of_a_batch_can_be_declared(name: str):
    """``plain`` is an attribute of the library's own, ``mro`` one of every class and of no instance."""
    value = np.zeros(2)
    assert record(**{name: Array})(**{name: value})[name] is value


def test_an_undeclared_name_stays_closed_when_it_is_a_method_or_a_class_variable():
    class Limited(ActBatch):
        limit: ClassVar[int] = 3

    batch = Limited(act=np.zeros(2))
    for name in ("split", "plain", "limit"):
        with pytest.raises(FieldNameError):
            setattr(batch, name, np.zeros(2))
    assert list(batch.keys()) == ["act"]
    assert len(list(batch.split(1))) == 2


class ClassVarianceStats(BatchRecord):
    mean: Array


def test_a_type_whose_name_contains_classvar_is_a_field_like_any_other():
    schema = record(stats=ClassVarianceStats, noted=Annotated[Array, "no ClassVar"], limit=ClassVar[int])
    assert list(kinds(schema)) == ["stats", "noted"]


def test_the_constructor_and_validate_agree_on_fields_with_a_leading_underscore():
    schema = record(_mask=Array, act=Array)
    assert list(kinds(schema)) == list(schema.__record_fields__)


class Asks(ActBatchProtocol, Protocol):
    goal: Array
    limit: ClassVar[int] = 3

    @property
    def step(self) -> np.int64: ...
    @property
    def whatever(self): ...  # type: ignore[no-untyped-def]
    def method(self) -> int: ...


class AsksMore(Asks, Protocol):
    weight: Array = None  # type: ignore[assignment]


def test_a_protocol_adds_annotations_and_properties_to_an_inherited_one():
    assert kinds(Asks) == {"act": {"ARRAY"}, "goal": {"ARRAY"}, "step": {"ARRAY"}, "whatever": None}
    assert [field.name for field in schema_of(AsksMore).fields if field.optional] == ["weight"]


def test_a_runtime_checkable_protocol_is_still_a_schema():
    @runtime_checkable
    class Goal(BatchProtocol, Protocol):
        @property
        def goal(self) -> Array: ...  # type: ignore[empty-body]

    assert isinstance(Batch(goal=np.zeros(2)), Goal)
    assert not isinstance(Batch(), Goal)
    with pytest.raises(TypeError, match="runtime_checkable"):
        isinstance(Batch(), ActBatchProtocol)  # type: ignore[misc]


def test_a_class_inside_a_function_is_a_schema_when_annotations_are_no_strings():
    inner = record(cam=Array)
    outer = record(obs=inner, maybe=inner | None)
    assert conforms(Batch(obs={"cam": [1.0]}, maybe=None), outer)
    assert paths(Batch(obs={"pos": [1.0]}, maybe=Batch(cam="x")), outer) == [
        ("obs.cam", "TB101"),
        ("maybe.cam", "TB202"),
    ]


def test_a_subclass_of_batch_is_validated_as_that_class():
    class Mine(Batch):
        def hello(self) -> str:
            return "hello"

    plain = Batch(act=np.zeros(2))
    if conforms(plain, Mine):  # either a view of the class, or a no; but not a Batch that passes for Mine
        assert validate(plain, Mine).hello() == "hello"
    assert validate(Mine(act=1), Mine).hello() == "hello"
    assert type(validate(plain, Batch)) is Batch


Reward = NewType("Reward", np.ndarray)


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Literal[0, 1], 1),
        (Literal["train", "eval"], "train"),
        (Literal["auto"] | type, "auto"),
        (Reward, np.zeros(N)),
        (Final[Array], np.zeros(N)),
        (np.float32, np.float32(0.5)),
        (np.floating, 0.5),
        (np.str_, np.str_("text")),
        (str | None, "text"),
        (dict[str, Array], {"a": [1]}),
        (Categorical, Categorical(torch.ones(N, 2))),
        (np.random.Generator, np.random.default_rng(0)),
        (Union[Cam, Array, None], np.zeros(N)),  # noqa: UP007
    ],
)
def test_what_a_record_of_that_annotation_stores_is_what_validate_accepts(hint: Any, value: Any):
    schema = record(field=hint)
    assert conforms(schema(field=value), schema)


class Quacks(Protocol):
    volume: int


def test_conforms_never_raises_for_a_field_whose_class_cannot_be_asked():
    conforms(Batch(field="text"), record(field=Quacks))
    conforms(Batch(field=object()), record(field=Quacks | None))


def test_a_field_of_arrays_or_numbers_still_counts_for_the_rows_when_it_holds_an_array():
    schema = record(weight=Array | float, act=Array)
    assert conforms(Batch(weight=0.5, act=np.zeros(N)), schema)
    assert conforms(Batch(weight=np.zeros(N), act=np.zeros(N)), schema)
    assert not conforms(Batch(weight=np.zeros(3), act=np.zeros(N)), schema)


def test_of_nested_alternatives_one_must_fit_in_rows_too():
    """``pos`` has the wrong rows for CamPos, but is not a field of Cam, so the batch holds a Cam."""
    schema = record(obs=CamPos | Cam, act=Array)
    validate(Batch(obs=Batch(cam=np.zeros(3), pos=np.zeros(4)), act=np.zeros(3)), schema)


@pytest.mark.parametrize("rows", [(3, 4, 3), (3, 4, 5), (3, 3, 4), (4, 3, 3), (0, 1, 0)])
def test_a_refusal_always_has_a_reason(rows: tuple[int, int, int]):
    schema = record(obs=CamPos | Cam | Array | None, act=Array)
    cam, pos, act = map(np.zeros, rows)
    for batch in (Batch(obs=Batch(cam=cam, pos=pos), act=act), Batch(obs=cam, act=act), Batch(obs=None, act=act)):
        if not conforms(batch, schema):
            assert refused(batch, schema).problems


def test_the_nested_alternative_that_is_closest_is_explained():
    schema = record(obs=record(a=Array, b=Array, c=Array) | record(x=Array, y=Array))
    assert paths(Batch(obs=Batch(x=[1])), schema) == [("obs.y", "TB101")]


def test_a_nested_record_whose_fields_may_all_be_absent_may_be_empty():
    class Extras(BatchRecord):
        mask: Array | None = None

    assert conforms(Batch(extras=Extras()), record(extras=Extras))
    assert conforms(Batch(extras=Batch()), record(extras=Extras))
