"""Stages and type variables: what each stands for, at any depth."""

from __future__ import annotations

from typing import (
    Annotated,
    Generic,
    Protocol,
    TypeVar,
    Union,
)

import numpy as np
import pytest
import typing_extensions
from torch import Tensor

from tests.validation.helpers import (
    Array,
    DefaultCam,
    N,
    Stage,
    StagedCam,
    T,
    TensorCam,
    fields,
    kinds,
    load,
    nested,
    newer,
    newest,
    paths,
    record,
)
from typedbatch import (
    Act_co,
    ActBatch,
    ArrayOrTensor,
    Batch,
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
from typedbatch.schema import schema_of

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
