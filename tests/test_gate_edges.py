"""The gate where declarations, functions and batches are unusual: generics, forward references, threads, size."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import dataclasses
import functools
import inspect
import itertools
import numbers
import os
import pickle
import subprocess
import sys
import threading
import time
import types
import warnings
from collections.abc import Iterator, Sequence
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Generic,
    Literal,
    NewType,
    Optional,
    Protocol,
    TypeVar,
    Union,
    runtime_checkable,
)

import numpy as np
import pytest
import torch
import typing_extensions
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Categorical, Normal

from typedbatch import (
    ActBatch,
    ActBatchProtocol,
    ActStateBatch,
    Batch,
    BatchProtocol,
    BatchRecord,
    DistBatch,
    ObsBatchProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    checked,
    conforms,
    convert,
    extend,
    validate,
)
from typedbatch.errors import DeclarationError, FieldNameError, MissingFieldError, TypedBatchError
from typedbatch.schema import schema_of

N = 6
Array = NDArray[Any]
T = TypeVar("T")
Stage = typing_extensions.TypeVar("Stage", default=Array)
ids = itertools.count()

newer = pytest.mark.skipif(sys.version_info < (3, 12), reason="syntax of Python 3.12")
newest = pytest.mark.skipif(sys.version_info < (3, 13), reason="syntax of Python 3.13")


def fields(rows: int = N, **changes: Any) -> dict[str, Any]:
    base = {
        "obs": np.zeros((rows, 4), np.float32),
        "obs_next": np.zeros((rows, 4), np.float32),
        "act": np.zeros(rows, np.int64),
        "rew": np.zeros(rows),
        "terminated": np.zeros(rows, bool),
        "truncated": np.zeros(rows, bool),
        "info": Batch(),
    }
    return {name: value for name, value in {**base, **changes}.items() if value is not ...}


def nested(rows: int = N, **changes: Any) -> dict[str, Any]:
    """Fields of a rollout whose observations are a batch with a camera."""
    return fields(rows, obs=Batch(cam=np.zeros(rows)), obs_next=Batch(cam=np.zeros(rows)), **changes)


def record(*bases: Any, **hints: Any) -> Any:
    """A record whose annotations are objects, as in a file without string annotations."""
    return types.new_class("Local", bases or (BatchRecord,), {}, lambda body: body.update(__annotations__=hints))


def load(source: str, *, strings: bool) -> types.SimpleNamespace:
    """The names of a module with this source, with string annotations or without."""
    module = types.ModuleType(f"typedbatch_test_module_{next(ids)}")
    sys.modules[module.__name__] = module
    names = (
        "Annotated",
        "Any",
        "Array",
        "Batch",
        "BatchProtocol",
        "BatchRecord",
        "Generic",
        "Protocol",
        "RolloutBatch",
    )
    vars(module).update({name: globals()[name] for name in (*names, "checked", "ActBatch")})
    flags = annotations.compiler_flag if strings else 0
    exec(compile(source, module.__name__, "exec", flags, dont_inherit=True), vars(module))
    return types.SimpleNamespace(**vars(module))


def kinds(schema: Any) -> dict[str, set[str] | None]:
    return {field.name: field.kinds and {kind.name for kind in field.kinds} for field in schema_of(schema).fields}


def refused(batch: object, schema: Any) -> SchemaError:
    with pytest.raises(SchemaError) as caught:
        validate(batch, schema)
    return caught.value


def paths(batch: object, schema: Any) -> list[tuple[str, str]]:
    return [(problem.path, problem.code.split()[0]) for problem in refused(batch, schema).problems]


class Cam(BatchRecord):
    cam: Array


class CamPos(BatchRecord):
    cam: Array
    pos: Array

    def both(self) -> Any:
        return self.cam + self.pos


class StagedCam(BatchRecord, Generic[T]):
    cam: T


class DefaultCam(BatchRecord, Generic[Stage]):
    cam: Stage


class TensorCam(BatchRecord):
    cam: Tensor


class Tree(BatchRecord):
    value: Array
    child: Optional["Tree"]  # noqa: UP037, UP045  # so that a file without string annotations has a ForwardRef here


# ---- stages and generics -------------------------------------------------------------------------------------------


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


# ---- forward references --------------------------------------------------------------------------------------------


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


def slowly_read() -> Any:
    """Called while the schema below is read: meanwhile another thread asks for it."""
    if not early:
        early.append(threading.Thread(target=lambda: seen_early.append(conforms(Batch(), SlowlyRead))))
        early[0].start()
        early[0].join(0.3)  # it may wait for the reading to end, but it must not answer from half a schema
    return np.ndarray


class SlowlyRead(BatchRecord):
    obs: slowly_read()  # type: ignore[valid-type]


def test_a_schema_that_another_thread_is_reading_is_not_used_half_read():
    assert not conforms(Batch(), SlowlyRead)
    early[0].join(5)
    assert seen_early == [False]


# ---- declarations --------------------------------------------------------------------------------------------------


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
    def step(self) -> int: ...
    @property
    def whatever(self): ...  # type: ignore[no-untyped-def]
    def method(self) -> int: ...


class AsksMore(Asks, Protocol):
    weight: Array = None  # type: ignore[assignment]


def test_a_protocol_adds_annotations_and_properties_to_an_inherited_one():
    assert kinds(Asks) == {"act": {"ARRAY"}, "goal": {"ARRAY"}, "step": {"ARRAY", "SCALAR", "TENSOR"}, "whatever": None}
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
        (list[int], [1, 2]),
        (Sequence[float], [0.5, 1.0]),
        (tuple[int, ...], (1, 2)),
        (numbers.Number, 3),
        (float | None, 0.5),
        (np.float32, 0.5),
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


def test_a_record_or_any_batch_takes_any_batch():
    schema = record(obs=CamPos | Batch)
    assert conforms(Batch(obs=Batch(lidar=np.zeros(N))), schema)
    assert conforms(Batch(obs=Batch(cam=np.zeros(N), pos=np.zeros(N))), schema)


def test_of_nested_alternatives_one_must_fit_in_rows_too():
    """``pos`` has the wrong rows for CamPos, but is no field of Cam, so the batch holds a Cam."""
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


# ---- defaults ------------------------------------------------------------------------------------------------------


def test_two_records_do_not_share_a_default_that_can_be_written_to():
    class WithInfo(BatchRecord):
        act: Array
        info: Batch = Batch()
        weight: Array = np.ones(2)

    one, two = WithInfo(act=np.zeros(2)), WithInfo(act=np.zeros(2))
    one.info["note"] = 1
    one.weight[0] = 5
    assert two.info.is_empty()
    assert two.weight.tolist() == [1, 1]


def test_a_dataclass_field_is_not_stored_as_a_value():
    try:
        schema = type("Own", (BatchRecord,), {
            "__annotations__": {"act": Array}, "act": dataclasses.field(default_factory=lambda: np.zeros(3))
        })  # fmt: skip
    except DeclarationError:
        return  # refused when the class is made: just as good
    assert isinstance(schema().act, np.ndarray)  # type: ignore[attr-defined]


class Masked(BatchRecord):
    act: Array
    mask: Array | None = None


def test_extend_and_convert_fill_in_the_defaults_that_the_constructor_fills_in():
    made = Masked(act=np.zeros(2))
    assert list(extend(Batch(act=np.zeros(2)), Masked).keys()) == list(made.keys())
    assert list(convert(Batch(act=torch.zeros(2)), Masked).keys()) == list(made.keys())
    assert len(Batch.cat([made, extend(Batch(act=np.zeros(2)), Masked)])) == 4


def test_a_field_that_may_be_absent_reads_as_its_default_in_a_view():
    view = validate(Batch(act=np.zeros(2)), Masked)
    assert view.mask is None
    assert view[:1].mask is None
    assert "mask" not in view


# ---- views ---------------------------------------------------------------------------------------------------------


def test_a_view_and_its_batch_see_each_others_deletions_and_replacements():
    batch = Batch(fields())
    view, second = validate(batch, RolloutBatch), validate(batch, RolloutBatch)
    del batch["rew"]
    with pytest.raises(MissingFieldError):
        view.rew
    view["rew"] = np.ones(N)
    second.to_torch_()
    assert isinstance(batch["rew"], Tensor)
    batch.cat_(Batch(view))
    assert len(view) == len(second) == 2 * N
    view.clear()
    assert batch.is_empty()


def test_a_view_outlives_its_batch():
    views = [validate(Batch(act=np.arange(3)), ActBatch) for _ in range(2000)]
    assert all(view.act.sum() == 3 for view in views)
    views[0]["more"] = 1
    assert list(views[0].keys()) == ["act", "more"]


def test_views_are_pickled_and_copied_like_records():
    batch = Batch(fields())
    view = validate(batch, RolloutBatch)
    for other in (pickle.loads(pickle.dumps(view)), copy.deepcopy(view), copy.copy(view)):
        assert type(other) is RolloutBatch
        assert other == batch
        del other["rew"]
        assert "rew" in batch
    assert view == batch


def test_a_view_is_closed_but_extra_fields_stay_and_are_carried():
    view = validate(Batch(act=np.zeros(4), done=np.zeros(4)), ActBatch)
    with pytest.raises(FieldNameError, match=r"batch\['done'\] = ..."):
        view.done = np.ones(4)  # type: ignore[attr-defined]
    assert view[1:]["done"].shape == (3,)


def test_extend_and_convert_give_nested_records_their_class_so_that_methods_work():
    schema = record(obs=CamPos)
    batch = Batch(obs=Batch(cam=np.ones(2), pos=np.ones(2)))
    for typed in (extend(batch, schema), convert(batch, schema)):  # new batches, so their class is free to choose
        assert typed.obs.both().tolist() == [2, 2]


def test_an_error_inside_a_property_of_a_record_is_not_blamed_on_the_property():
    class Sums(BatchRecord):
        act: Array

        @property
        def total(self) -> Any:
            return self.atc.sum()  # type: ignore[attr-defined]

    with pytest.raises(AttributeError, match="'atc'"):
        Sums(act=np.zeros(2)).total


# ---- unusual batches -----------------------------------------------------------------------------------------------


def test_zero_rows_are_rows():
    assert len(validate(Batch(fields(0)), RolloutBatchProtocol)) == 0
    assert paths(Batch(fields(0, rew=np.zeros(1))), RolloutBatchProtocol) == [("rew", "TB302")]


def test_a_row_and_an_empty_batch_are_no_batch_of_rows():
    assert {code for _, code in paths(Batch(fields())[0], RolloutBatchProtocol)} == {"TB301"}
    assert {code for _, code in paths(Batch(), RolloutBatchProtocol)} == {"TB101"}
    assert paths(Batch(fields(obs=Batch())), RolloutBatchProtocol) == [("obs", "TB103")]


def test_subclasses_of_arrays_and_tensors_are_arrays_and_tensors(tmp_path: Any):
    class MyTensor(Tensor): ...

    mapped = np.memmap(tmp_path / "m", mode="w+", shape=(3,), dtype=float)
    masked = np.ma.array([1.0, 2.0, 3.0], mask=[0, 1, 0])
    batch = Batch(a=mapped, b=masked, c=torch.nn.Parameter(torch.zeros(3)), d=torch.zeros(3).as_subclass(MyTensor))
    schema = record(a=Array, b=np.ma.MaskedArray, c=Tensor, d=Tensor | None)
    assert validate(batch, schema).a is mapped
    assert paths(Batch(batch, b=torch.zeros(3)), schema) == [("b", "TB202")]


def test_jaxtyping_annotations_declare_kinds():
    from jaxtyping import Float

    schema = record(one=Float[np.ndarray, "N 4"], two=Float[Tensor, "N"] | None, either=Float[np.ndarray | Tensor, "N"])
    assert kinds(schema) == {"one": {"ARRAY"}, "two": {"TENSOR", "NONE"}, "either": {"ARRAY", "TENSOR"}}


def test_a_jaxtyping_annotation_without_dimensions_is_one_number():
    from jaxtyping import Float

    assert conforms(Batch(loss=0.5, act=np.zeros(3)), record(loss=Float[np.ndarray, ""], act=Array))


def test_a_distribution_class_is_asked_for_by_name():
    error = refused(Batch(dist=Normal(torch.zeros(2), 1.0)), record(dist=Categorical))
    assert str(error.problems[0]) == "batch.dist  Normal[2], expected a Categorical  [TB202 wrong-kind]"


def test_two_hundred_levels():
    deep = Batch(x=np.zeros(N))
    for _ in range(200):
        deep = Batch(x=np.zeros(N), inner=deep)
    batch = Batch(act=np.zeros(N), state=deep)
    assert conforms(batch, ActStateBatch)
    assert convert(batch, ActStateBatch[Tensor]).act.shape == (N,)


@pytest.mark.parametrize("field", ["info", "obs"])
def test_a_batch_that_holds_itself_is_answered_not_crashed_on(field: str):
    batch = Batch(fields())
    batch[field] = batch
    assert conforms(batch, RolloutBatchProtocol) in (True, False)
    with contextlib.suppress(SchemaError):
        validate(batch, RolloutBatchProtocol)


def test_a_recursive_record_that_holds_itself_is_answered_not_crashed_on():
    batch = Batch(value=np.zeros(N))
    batch["child"] = batch
    assert conforms(batch, record(value=Array, child=Batch)) in (True, False)


def test_ten_thousand_fields():
    schema = record(**{f"f{i}": Array for i in range(10_000)})
    batch = schema(**{f"f{i}": np.zeros(2) for i in range(10_000)})
    assert validate(Batch(batch), schema).f9999.shape == (2,)
    assert convert(batch, schema) == batch


def test_a_report_on_many_misnamed_fields_is_ready_in_a_moment():
    schema = record(**{f"feature_{i}": Array for i in range(500)})
    batch = Batch({f"feat_{i}": np.zeros(2) for i in range(500)})
    start = time.perf_counter()
    assert len(refused(batch, schema).problems) == 500
    assert time.perf_counter() - start < 3  # cubic in the fields, it takes six times as long


def test_a_report_on_many_conflicting_fields_can_be_read():
    schema = record(**{f"f{i}": Array for i in range(400)})
    one = refused(Batch({f"f{i}": np.zeros(2 if i else 3) for i in range(400)}), schema)
    assert [problem.path for problem in one.problems] == ["f0"]
    assert len(str(one)) < 2_000  # "2 in f1, f2, f3 and 396 more"
    tie = refused(Batch({f"f{i}": np.zeros(2 + i % 2) for i in range(400)}), schema)
    assert len(str(tie)) < 100_000


# ---- what the report says ------------------------------------------------------------------------------------------


def test_a_nested_batch_of_many_leaves_has_one_vote_on_the_rows():
    info = Batch({f"stat_{i}": np.zeros(N - 1) for i in range(8)})
    assert {path.split(".")[0] for path, _ in paths(Batch(fields(info=info)), RolloutBatchProtocol)} == {"info"}


def test_no_hint_to_convert_what_convert_cannot_change():
    objects = np.array([None] * N)
    with pytest.raises(SchemaError) as caught:
        convert(Batch(fields(rew=objects)), RolloutBatch[Tensor])
    assert [problem.path for problem in caught.value.problems] == ["rew"]
    assert "convert(" not in caught.value.problems[0].hint


def test_the_hint_to_convert_names_the_schema_of_the_whole_batch():
    schema = record(obs=Cam, act=Array)
    (problem,) = refused(Batch(obs=Batch(cam=torch.zeros(2)), act=np.zeros(2)), schema).problems
    assert "convert(batch, Cam)" not in problem.hint  # that would turn the whole batch into its observation
    validate(convert(Batch(obs=Batch(cam=torch.zeros(2)), act=np.zeros(2)), schema), schema)


def test_hints_name_near_fields_only():
    batch = Batch(fields(obs=..., rew=..., obsv=np.zeros(N), completely_different=np.zeros(N)))
    hints = {problem.path: problem.hint for problem in refused(batch, RolloutBatchProtocol).problems}
    assert "did you mean 'obsv'?" in hints["obs"]
    assert "did you mean" not in hints["rew"]


def test_the_article_follows_the_sound():
    user, fqf = type("UserBatch", (ActBatch,), {}), type("FQFOutput", (ActBatch,), {})
    assert str(refused(Batch(), user)).startswith("batch is not a UserBatch ")
    assert str(refused(Batch(), fqf)).startswith("batch is not an FQFOutput ")


@pytest.mark.parametrize(
    "schema", [5, "RolloutBatch", int, Any, None, np.zeros(3), Batch(), [ActBatch], ActBatch | int, np.zeros], ids=str
)
def test_what_is_no_schema_is_a_declaration_error_whatever_it_is(schema: Any):
    with pytest.raises(DeclarationError, match="no schema"):
        validate(Batch(), schema)


def test_a_string_is_shown_as_a_string_so_that_the_refusal_makes_sense():
    with pytest.raises(DeclarationError, match="'ActBatch'"):
        validate(Batch(), "ActBatch")  # type: ignore[call-overload]


def test_none_alone_as_a_schema_never_ends_in_an_internal_error():
    for value in (None, 5, Batch()):
        try:
            assert validate(value, types.NoneType) is None
        except TypedBatchError:
            assert value is not None


@pytest.mark.parametrize("value", [{"act": [1]}, None, [Batch()], 5])
def test_extend_and_convert_of_what_is_no_batch_say_so(value: Any):
    for make in (extend, convert):
        with pytest.raises(TypedBatchError, match="Batch"):
            make(value, ActBatch)


# ---- extend and convert --------------------------------------------------------------------------------------------


def test_extend_converts_dicts_and_lists_and_leaves_a_view_and_its_batch_alone():
    batch = Batch(act=np.zeros(2), done=np.zeros(2))
    view = validate(batch, ActBatch)
    assert isinstance(extend(view, ActStateBatch, state=[[1, 2], [3, 4]]).state, np.ndarray)
    assert isinstance(extend(view, ActStateBatch, state={"h": [1, 2]}).state, Batch)
    result = extend(view, ActStateBatch, state=[{"h": 1}, {"h": 2}])
    assert type(result) is ActStateBatch
    assert list(result.keys()) == ["act", "done", "state"]
    assert "state" not in batch
    with pytest.raises(SchemaError, match="a scalar i64"):
        extend(view, ActStateBatch, state=3)


def test_extend_replaces_a_field_and_nested_batches_are_not_shared():
    batch = Batch(act=np.zeros(2), state=Batch(h=np.zeros(2)))
    result = extend(batch, ActStateBatch, act=np.ones(2))
    assert batch["act"].sum() == 0
    result.state["c"] = np.zeros(2)  # type: ignore[index, call-overload]
    assert "c" not in batch["state"]


def test_convert_keeps_nested_records_and_turns_each_by_its_own_declaration():
    schema = record(obs=TensorCam, raw=Cam, act=Tensor)
    batch = Batch(obs=Cam(cam=np.zeros(2)), raw=TensorCam(cam=torch.zeros(2)), act=np.zeros(2), extra=np.zeros(2))
    result = convert(batch, schema)
    assert [type(leaf) for leaf in (result.obs.cam, result.raw.cam, result.act)] == [Tensor, np.ndarray, Tensor]
    assert isinstance(result["extra"], Tensor)
    assert isinstance(batch["act"], np.ndarray)


def test_convert_leaves_none_and_distributions():
    batch = Batch(act=np.zeros(2), state=None, logits=np.zeros((2, 3)), dist=Categorical(torch.ones(2, 3)))
    result = convert(batch, DistBatch[Tensor])
    assert isinstance(result.logits, Tensor)
    assert convert(result, DistBatch).dist is batch["dist"]


# ---- checked -------------------------------------------------------------------------------------------------------

good, bad = Batch(act=np.zeros(2)), Batch()


def test_checked_and_every_kind_of_parameter():
    @checked
    def after_args(*numbers: int, batch: ActBatch) -> Any:
        return numbers, batch

    assert after_args(1, 2, 3, batch=good)[0] == (1, 2, 3)
    with pytest.raises(SchemaError, match="argument `batch`"):
        after_args(1, 2, 3, batch=bad)

    @checked
    def positional(batch: ActBatch, /, **rest: Any) -> Any:
        return rest

    assert positional(good, batch=5) == {"batch": 5}

    @checked
    def default(batch: ActBatch | None = None, *, other: ActBatch = bad) -> Any:  # type: ignore[assignment]
        return batch

    assert default() is None  # a default is the function's own, as everywhere in Python


def test_checked_sees_every_batch_of_star_args_and_of_keywords():
    @checked
    def several(*batches: ActBatch) -> int:
        return len(batches)

    @checked
    def named(**batches: ActBatch) -> int:
        return len(batches)

    assert several(good, good) == named(one=good, two=good) == 2
    with pytest.raises(SchemaError):
        several(good, bad)
    with pytest.raises(SchemaError):
        named(one=good, two=bad)


def test_checked_below_and_above_staticmethod_and_classmethod():
    class Policy:
        @staticmethod
        @checked
        def below(batch: ActBatch) -> int:
            return len(batch)

        @classmethod
        @checked
        def below_too(cls, batch: ActBatch) -> int:
            return len(batch)

    assert Policy.below(good) == Policy().below_too(good) == 2
    for wrapper in (staticmethod, classmethod):
        try:

            class Above:
                method = checked(wrapper(lambda *args: len(args)))  # type: ignore[arg-type]

        except TypeError:
            continue  # refused when the class is made: just as good
        assert Above.method(good) == Above().method(good)


@pytest.mark.parametrize(
    "wrap", [functools.lru_cache, torch.no_grad(), functools.partial], ids=["cache", "grad", "partial"]
)
def test_checked_on_wrapped_functions(wrap: Any):
    def make(n: int = 2) -> ActBatch:
        return Batch(act=np.zeros(n)) if n else bad  # type: ignore[return-value]

    function = checked(wrap(make))
    assert type(function(2)) is ActBatch
    with pytest.raises(SchemaError, match=r"test_gate_edges\.py"):
        function(0)


def test_checked_on_an_object_that_can_be_called():
    class Actor:
        def __call__(self, batch: ActBatch) -> int:
            return len(batch)

    try:
        actor = checked(Actor())
    except TypeError:
        return  # refused at once: just as good
    assert actor(good) == 2


def test_checked_does_not_stumble_over_an_annotation_that_is_none_of_its_business():
    """``model: nn.Module`` with the import under TYPE_CHECKING is how most training code is written."""

    @checked
    def update(model: OnlyForCheckers, batch: ActBatch) -> AlsoOnlyForCheckers:  # type: ignore[name-defined]  # noqa: F821
        return len(batch)

    assert update(object(), good) == 2
    with pytest.raises(SchemaError):
        update(object(), bad)


def test_checked_on_a_generic_function_checks_the_bound():
    @checked
    def same(batch: Bound) -> Bound:
        return batch

    assert same(good) is not None
    with pytest.raises(SchemaError):
        same(bad)


Bound = TypeVar("Bound", bound=ActBatchProtocol)


def test_checked_on_a_coroutine_checks_what_it_returns_or_refuses_it_at_once():
    async def act(batch: ActBatch) -> ActBatch:
        return batch

    try:
        function = checked(act)
    except DeclarationError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result: Any = function(good)
        except SchemaError:
            result = None
    assert inspect.isawaitable(result)
    assert type(asyncio.run(result)) is ActBatch


def test_checked_on_a_generator_checks_its_arguments_when_called():
    @checked
    def rows(batch: ActBatch) -> Iterator[ActBatch]:
        yield from batch

    assert len(list(rows(good))) == 2
    with pytest.raises(SchemaError):
        rows(bad)


def test_checked_names_the_users_file_below_another_decorator():
    @checked
    @torch.no_grad()
    def update(batch: ActBatch) -> int:
        return len(batch)

    with pytest.raises(SchemaError, match=r"test_gate_edges\.py:\d+"):
        update(bad)


@pytest.mark.parametrize(
    ("value", "off"), [("off", True), ("OFF", True), ("", False), ("structure", False), ("values", False)]
)
def test_only_off_turns_checked_off(value: str, off: bool):
    code = f"import typedbatch as tb\ndef f(b: tb.RolloutBatch) -> None: ...\nassert (tb.checked(f) is f) is {off}"
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "TYPEDBATCH_CHECK": value})


def test_observations_of_gymnasium():
    gymnasium = pytest.importorskip("gymnasium")
    obs, info = gymnasium.make_vec("CartPole-v1", num_envs=3).reset(seed=0)
    assert validate(Batch(obs=obs, info=info), ObsBatchProtocol)["obs"].shape == (3, 4)
