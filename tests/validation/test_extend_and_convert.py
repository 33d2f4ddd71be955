"""Batches extended to the next stage, converted to the other kind, and seen as records."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor
from torch.distributions import Categorical

from tests.validation.helpers import Array, Cam, CamPos, N, TensorCam, fields, record
from typedbatch import (
    ActBatch,
    ActStateBatch,
    Batch,
    BatchRecord,
    BatchWithReturnsProtocol,
    DistBatch,
    LogpOldBatch,
    NoGradient,
    RolloutBatch,
    SchemaError,
    conforms,
    convert,
    extend,
    validate,
)
from typedbatch.errors import DeclarationError, FieldNameError, MissingFieldError, SettingError
from typedbatch.posttraining import Ready, ValueLossProtocol
from typedbatch.testing import example


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


def rollout(rows: int = 3) -> RolloutBatch:
    return RolloutBatch(
        obs=np.zeros((rows, 2), np.float32), obs_next=np.zeros((rows, 2), np.float32), act=np.arange(rows),
        rew=np.ones(rows), terminated=np.zeros(rows, bool), truncated=np.zeros(rows, bool),
        info=Batch(score=np.ones(rows)),
    )  # fmt: skip


@pytest.mark.parametrize("device", [None, "cpu", torch.device("cpu")])
def test_convert_casts_floating_fields_and_no_others(device):
    given = rollout()
    tensors = convert(given, RolloutBatch[Tensor], dtype=torch.float32, device=device)
    assert type(tensors) is RolloutBatch
    assert (tensors.rew.dtype, tensors.info.score.dtype) == (torch.float32, torch.float32)
    assert (tensors.act.dtype, tensors.terminated.dtype) == (torch.int64, torch.bool)
    assert np.shares_memory(tensors.obs.numpy(), given.obs)
    assert given.rew.dtype == np.float64
    assert convert(tensors, RolloutBatch[Tensor], dtype=torch.float64).rew.dtype == torch.float64


@pytest.mark.parametrize(
    ("into", "dtype", "words"),
    [
        (RolloutBatch[Tensor], torch.int64, r"dtype= must be a floating one, as torch\.bfloat16, got torch\.int64"),
        (RolloutBatch[Tensor], "f4", r"dtype= must be a dtype of torch, as torch\.float32, got 'f4'"),
        (RolloutBatch, torch.float32, r"dtype= is for tensors, and RolloutBatch declares none; declare tensors"),
    ],
)
def test_convert_refuses_a_dtype_that_no_field_can_take(into, dtype, words):
    with pytest.raises(SettingError, match=words):
        convert(rollout(), into, dtype=dtype)


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


class Narrow(BatchRecord):
    x: np.ndarray


class Wide(BatchRecord):
    x: np.ndarray
    y: np.ndarray


@pytest.mark.parametrize("level", ["off", "structure", "values"])
def test_a_record_of_one_alternative_of_a_union_is_handed_out_itself(level):
    wide = Wide(x=np.zeros(2), y=np.zeros(2))
    assert validate(wide, Narrow | Wide, level=level) is wide
    assert type(validate(Batch(wide), Narrow | Wide, level=level)) is Narrow


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


def codes(batch: Any, schema: Any) -> list[tuple[str, str]]:
    """The paths and codes of all problems, which the generated check must agree with."""
    try:
        validate(batch, schema)
    except SchemaError as error:
        assert not conforms(batch, schema)
        return [(problem.path, problem.code) for problem in error.problems]
    assert conforms(batch, schema)
    return []


def needing(value: Tensor) -> Tensor:
    return value.clone().requires_grad_()


@pytest.mark.parametrize("name", ["returns", "adv", "logp_old"])
def test_targets_of_rollouts(name):
    batch = example(LogpOldBatch[Tensor], N=4)
    assert codes(batch, LogpOldBatch[Tensor]) == []
    batch[name] = needing(batch[name])
    assert codes(batch, LogpOldBatch[Tensor]) == [(name, "TB204 unwanted-gradient")]


@pytest.mark.parametrize("name", ["obs", "v_s", "rew"])
def test_other_fields_may_have_a_gradient(name):
    batch = example(LogpOldBatch[Tensor], N=4)
    batch[name] = needing(batch[name].float())
    assert codes(batch, LogpOldBatch[Tensor]) == []


def test_a_protocol_and_extend_refuse_it_too():
    batch = example(BatchWithReturnsProtocol[Tensor], N=4)
    value = needing(batch.returns)
    with pytest.raises(SchemaError, match="TB204 unwanted-gradient"):
        extend(batch, BatchWithReturnsProtocol[Tensor], returns=value)
    assert not batch.returns.requires_grad


def test_targets_of_post_training():
    batch = example(Ready, N=2)
    assert codes(batch, Ready) == []
    for name in ("old_logp", "advantages", "rewards"):
        batch[name] = needing(batch[name])
    expected = {(name, "TB204 unwanted-gradient") for name in ("old_logp", "advantages", "rewards")}
    assert set(codes(batch, Ready)) == expected


def test_values_of_a_critic_that_learns_have_a_gradient():
    batch = example(ValueLossProtocol, N=2)
    batch["values"] = needing(batch["values"])
    assert codes(batch, ValueLossProtocol) == []


class Mine(BatchRecord):
    obs: Tensor
    either: Annotated[Float[np.ndarray, "N"] | Float[Tensor, "N"], NoGradient]
    maybe: Annotated[Tensor, NoGradient] | None = None


def test_in_unions_it_is_of_the_tensor():
    obs, one = torch.zeros(3), torch.zeros(3, requires_grad=True)
    assert codes(Mine(obs=obs, either=np.zeros(3, np.float32)), Mine) == []
    assert codes(Mine(obs=obs, either=torch.zeros(3)), Mine) == []
    assert codes(Mine(obs=obs, either=torch.zeros(3), maybe=torch.zeros(3)), Mine) == []
    wrong = Mine(obs=obs, either=one, maybe=one)
    assert [code for _, code in codes(wrong, Mine)] == ["TB204 unwanted-gradient"] * 2


def test_a_field_may_be_declared_again_without_it():
    class Differentiable(LogpOldBatch[Tensor]):
        returns: Tensor

    fields = Batch.to_dict(example(LogpOldBatch[Tensor], N=4), recursive=False)
    assert codes(Differentiable(**{**fields, "returns": needing(fields["returns"])}), Differentiable) == []
