"""Which fields and kinds a declaration has: bases, generics, protocols, and classes that come later."""

from __future__ import annotations

import threading
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NewType,
    Protocol,
    TypeVar,
    Union,
    runtime_checkable,
)

import numpy as np
import pytest
import torch
import typing_extensions
from torch import Tensor
from torch.distributions import Categorical

from tests.validation.helpers import (
    Array,
    Cam,
    CamPos,
    DefaultCam,
    N,
    Stage,
    StagedCam,
    T,
    TensorCam,
    Tree,
    fields,
    kinds,
    load,
    nested,
    newer,
    newest,
    paths,
    record,
    refused,
)
from typedbatch import (
    Act_co,
    ActBatch,
    ActBatchProtocol,
    ArrayOrTensor,
    Batch,
    BatchProtocol,
    BatchRecord,
    K_co,
    Obs_co,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    conforms,
    convert,
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


Kind = TypeVar("Kind", bound=ArrayOrTensor)


def test_a_subclass_that_gives_stage_and_observation_gets_actions_of_that_stage():
    class TorchPixels(RolloutBatch[Tensor, TensorCam]): ...

    tensors = Batch(nested()).to_torch()
    assert kinds(RolloutBatch[Tensor, TensorCam])["act"] == {"TENSOR"}
    assert kinds(TorchPixels)["act"] == {"TENSOR"}
    assert conforms(tensors, TorchPixels)


def test_a_protocol_that_gives_stage_and_observation_gets_actions_of_that_stage():
    class TorchPixels(RolloutBatchProtocol[Tensor, TensorCam], Protocol): ...

    assert kinds(TorchPixels)["act"] == {"TENSOR"}


def test_a_generic_subclass_need_not_repeat_the_parameters_that_default():
    class OwnStage(RolloutBatch[T], Generic[T]): ...

    class OwnPixels(RolloutBatch[T, StagedCam[T]], Generic[T]): ...

    class OwnProtocol(RolloutBatchProtocol[T, StagedCam[T]], Protocol[T]): ...

    for schema in (OwnStage[Tensor], OwnPixels[Tensor], OwnProtocol[Tensor]):
        assert kinds(schema)["act"] == kinds(schema)["rew"] == {"TENSOR"}


def test_a_nested_record_takes_the_stage_of_the_users_own_type_variable():
    class OwnPixels(RolloutBatch[T, StagedCam[T], T], Generic[T]): ...

    class DefaultPixels(RolloutBatch[Stage, DefaultCam[Stage], Stage], Generic[Stage]): ...

    arrays, tensors = Batch(nested()), Batch(nested()).to_torch()
    for schema in (OwnPixels, DefaultPixels):
        assert conforms(arrays, schema[Array])
        assert conforms(tensors, schema[Tensor])
        mixed = Batch(tensors, obs=arrays["obs"])
        assert paths(mixed, schema[Tensor]) == [("obs.cam", "TB202")]
    assert conforms(arrays, DefaultPixels)


def test_type_variables_are_replaced_at_any_depth():
    box = record(BatchRecord, Generic[T], inner=T)
    boxes = record(BatchRecord, Generic[T], box=box[box[T]])
    (inner,) = schema_of(boxes[Tensor]).fields[0].nested
    (innermost,) = inner.fields[0].nested
    assert innermost.fields[0].kinds == schema_of(TensorCam).fields[0].kinds


def test_a_constrained_variable_takes_its_constraints_only():
    Either = TypeVar("Either", np.ndarray, Tensor)
    schema = record(BatchRecord, Generic[Either], value=Either)
    assert kinds(schema) == {"value": {"ARRAY", "TENSOR"}}
    assert kinds(schema[Tensor]) == {"value": {"TENSOR"}}


def test_a_variable_may_default_to_none():
    Nothing = typing_extensions.TypeVar("Nothing", default=None)
    assert kinds(record(BatchRecord, Generic[Nothing], state=Nothing)) == {"state": {"NONE"}}


@newer
@pytest.mark.parametrize("strings", [False, True])
def test_classes_in_the_syntax_of_python_312(strings: bool):
    module = load(
        "class Obs[K](BatchRecord):\n"
        "    cam: K\n"
        "class Own[K](BatchRecord):\n"
        "    obs: Obs[K]\n"
        "    act: K\n"
        "class Asks[K](BatchProtocol, Protocol):\n"
        "    goal: K\n"
        "    @property\n"
        "    def step(self) -> K: ...\n"
        "class Staged[K](RolloutBatch[K, Obs[K], K]): ...\n",
        strings=strings,
    )
    assert kinds(module.Own[Array]) == {"obs": {"BATCH"}, "act": {"ARRAY"}}
    assert kinds(module.Asks[Array]) == {"goal": {"ARRAY"}, "step": {"ARRAY"}}
    assert kinds(schema_of(module.Staged[Array]).fields[0].nested[0].target[Array]) == {"cam": {"ARRAY"}}
    assert schema_of(module.Staged[Array]).fields[0].nested[0].fields[0].kinds is not None


@newest
@pytest.mark.parametrize("strings", [False, True])
def test_defaults_in_the_syntax_of_python_313(strings: bool):
    module = load("class Own[K = Array, L = K](BatchRecord):\n    one: K\n    two: L\n", strings=strings)
    assert kinds(module.Own) == {"one": {"ARRAY"}, "two": {"ARRAY"}}
    assert kinds(module.Own[None]) == {"one": {"NONE"}, "two": {"NONE"}}


@newer
def test_aliases_in_the_syntax_of_python_312():
    module = load(
        "type Arr = Array\ntype Again = Arr\ntype Maybe[V] = V | None\ntype Acts = ActBatch\n"
        "class Own(BatchRecord):\n    one: Arr\n    two: Again\n    three: Maybe[Array]\n"
        "@checked\ndef length(batch: Acts) -> int:\n    return 1\n",
        strings=False,
    )
    assert kinds(module.Own) == {"one": {"ARRAY"}, "two": {"ARRAY"}, "three": {"ARRAY", "NONE"}}
    assert type(validate(Batch(act=np.zeros(2)), module.Acts)) is ActBatch
    with pytest.raises(SchemaError):
        module.length(Batch())


Arr = typing_extensions.TypeAliasType("Arr", Array)
Again = typing_extensions.TypeAliasType("Again", Arr)
Maybe = typing_extensions.TypeAliasType("Maybe", Union[T, None], type_params=(T,))  # type: ignore[misc]  # noqa: UP007
Acts = typing_extensions.TypeAliasType("Acts", ActBatch)


def test_aliases_of_aliases_and_generic_aliases_are_looked_through():
    assert kinds(record(one=Arr, two=Again, three=Maybe[Array])) == {
        "one": {"ARRAY"},
        "two": {"ARRAY"},
        "three": {"ARRAY", "NONE"},
    }


def test_an_alias_and_an_annotated_schema_are_schemas():
    batch = Batch(act=np.zeros(2))
    assert type(validate(batch, Acts)) is ActBatch
    assert type(validate(batch, Annotated[ActBatch, "the actor's output"])) is ActBatch


def test_a_variable_of_ones_own_stands_for_arrays_and_tensors_until_it_is_given():
    class Costs(RolloutBatch[Kind], Generic[Kind]):
        cost: Kind

    class Whole(RolloutBatch[K_co, Obs_co, Act_co], Generic[K_co, Obs_co, Act_co]):
        cost: K_co

    arrays = Batch(fields(cost=np.zeros(N)))
    tensors = convert(arrays, Costs[Tensor])
    assert kinds(Costs)["cost"] == {"ARRAY", "TENSOR"}
    assert kinds(Whole)["cost"] == {"ARRAY"}
    for batch, takes in ((arrays, (Costs, Costs[np.ndarray], Whole)), (tensors, (Costs, Costs[Tensor], Whole[Tensor]))):
        assert all(conforms(batch, schema) for schema in takes)
    assert not conforms(arrays, Costs[Tensor])
    assert not conforms(Batch(fields(cost="dear")), Costs)


def test_a_field_of_arrays_or_tensors():
    one = record(x=ArrayOrTensor)
    assert kinds(one)["x"] == {"ARRAY", "TENSOR"}


def test_a_recursive_record_is_checked_all_the_way_down():
    leaf = Batch(value=np.zeros(N), child=None)
    assert conforms(Batch(value=np.zeros(N), child=leaf), Tree)
    assert paths(Batch(value=np.zeros(N), child=Batch(value=np.zeros(N))), Tree) == [("child.child", "TB101")]


@pytest.mark.parametrize("strings", [False, True])
def test_forward_references_inside_other_types(strings: bool):
    module = load(
        "from typing import Optional\n"
        "class Own(BatchRecord):\n"
        "    direct: 'Later'\n"
        "    maybe: Optional['Later']\n"
        "    noted: Annotated['Later', 1]\n"
        "class Rollout(RolloutBatch[Array, 'Later']): ...\n"
        "class Later(BatchRecord):\n"
        "    cam: Array\n",
        strings=strings,
    )
    assert [[one.name for one in field.nested] for field in schema_of(module.Own).fields] == [["Later"]] * 3
    assert [one.name for one in schema_of(module.Rollout).fields[0].nested] == ["Later"]


def test_a_failed_reading_leaves_no_half_read_schema_behind():
    module = load(
        "class Outer(BatchRecord):\n    inner: 'Inner'\n    bad: 'NoSuchName'\n"
        "class Inner(BatchRecord):\n    outer: 'Outer | None'\n",
        strings=True,
    )
    with pytest.raises(DeclarationError, match="NoSuchName"):
        conforms(Batch(), module.Outer)
    with pytest.raises(DeclarationError, match="NoSuchName"):  # and not True, as if Outer declared nothing
        conforms(Batch(outer=Batch(garbage=1)), module.Inner)


seen_early: list[bool] = []
early: list[threading.Thread] = []


def slowly_read(_: Any) -> Any:
    """Called while the schema below is read: meanwhile another thread asks for it."""
    if not early:
        early.append(threading.Thread(target=lambda: seen_early.append(conforms(Batch(), SlowlyRead))))
        early[0].start()
        early[0].join(0.3)  # it may wait for the reading to end, but it must not answer from half a schema
    return np.ndarray


class SlowlyRead(BatchRecord):
    obs: slowly_read(LATER)  # type: ignore[valid-type]


LATER = None  # so that the schema is not read when the class is made


def test_a_schema_that_another_thread_is_reading_is_not_used_half_read():
    assert not conforms(Batch(), SlowlyRead)
    early[0].join()
    assert seen_early == [False]
