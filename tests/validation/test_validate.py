"""validate, conforms, extend, convert, checked: the ways from an open batch to a typed one."""

from __future__ import annotations

import pickle
from functools import partial
from typing import Any, Protocol

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Categorical, Normal

from tests.validation import helpers
from typedbatch import (
    Batch,
    BatchProtocol,
    BatchRecord,
    BatchWithReturns,
    BatchWithReturnsProtocol,
    DistBatchProtocol,
    LogpOldProtocol,
    Problem,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    checked,
    conforms,
    convert,
    extend,
    validate,
)
from typedbatch.errors import DeclarationError, FieldNameError, LeafError

N = 8
fields = partial(helpers.fields, N)


class PixelObs(BatchRecord):
    cam: NDArray[Any]
    pos: NDArray[Any]


class PixelRollout(RolloutBatch[NDArray[Any], PixelObs]):
    goal: NDArray[Any]
    mask: NDArray[Any] | None = None


class HasGoal(BatchProtocol, Protocol):
    goal: NDArray[Any]

    @property
    def step(self) -> np.int64: ...


def problems(batch: object, schema: Any) -> list[tuple[str, str]]:
    with pytest.raises(SchemaError) as caught:
        validate(batch, schema)
    return [(problem.path, problem.code.split()[0]) for problem in caught.value.problems]


def test_a_protocol_hands_out_the_very_same_object():
    batch = Batch(fields())
    assert validate(batch, RolloutBatchProtocol) is batch


def test_a_record_that_is_one_already_is_returned_itself():
    record = PixelRollout(
        **fields(obs=Batch(cam=np.zeros(N), pos=np.zeros(N)), obs_next=Batch(cam=np.zeros(N), pos=np.zeros(N))),
        goal=np.zeros(N),
    )
    assert validate(record, PixelRollout) is record
    assert validate(record, HasGoal | PixelRollout) is record


def test_fields_that_are_not_declared_are_no_problem():
    validate(Batch(fields(), done=np.zeros(3), policy=Batch(), note="hello"), RolloutBatchProtocol)


@pytest.mark.parametrize("info", [Batch(), Batch(env_id=np.zeros(N)), np.array([None] * N), np.array([{"t": 1}] * N)])
def test_info_may_be_a_batch_or_an_object_array(info: Any):
    validate(Batch(fields(info=info)), RolloutBatchProtocol)


def test_every_problem_is_collected_in_the_order_of_the_declaration():
    batch = Batch(fields(rew=..., obs=np.zeros((N - 1, 4)), act=torch.zeros(N), truncated=Batch()))
    assert problems(batch, RolloutBatchProtocol) == [
        ("act", "TB202"), ("rew", "TB101"), ("truncated", "TB103"), ("obs", "TB302"),
    ]  # fmt: skip


def test_rows_of_nested_batches_count():
    assert problems(Batch(fields(info=Batch(env_id=np.zeros(3)))), RolloutBatchProtocol) == [("info.env_id", "TB302")]
    assert problems(
        Batch(fields(obs=Batch(cam=np.zeros(3), pos=np.zeros(N)), obs_next=Batch(cam=np.zeros(N), pos=np.zeros(N)))),
        RolloutBatchProtocol[NDArray[Any], PixelObs],
    ) == [("obs.cam", "TB302")]


def test_nested_observations_are_checked_member_by_member():
    batch = Batch(fields(obs=Batch(cam=np.zeros(N)), obs_next=Batch(cam=np.zeros(N), pos=torch.zeros(N))))
    assert problems(batch, RolloutBatchProtocol[NDArray[Any], PixelObs]) == [
        ("obs.pos", "TB101"),
        ("obs_next.pos", "TB202"),
    ]
    assert problems(Batch(fields()), RolloutBatchProtocol[NDArray[Any], PixelObs]) == [
        ("obs", "TB202"),
        ("obs_next", "TB202"),
    ]


def test_stages_do_not_mix():
    numpy_batch, torch_batch = Batch(fields()), Batch(fields()).to_torch()
    assert conforms(numpy_batch, RolloutBatchProtocol)
    assert conforms(torch_batch, RolloutBatchProtocol[Tensor])
    assert not conforms(numpy_batch, RolloutBatchProtocol[Tensor])
    assert {code for _, code in problems(torch_batch, RolloutBatchProtocol)} == {"TB202"}


def test_scalars_have_no_rows_but_a_field_declared_as_a_number_needs_none():
    assert problems(Batch(fields(rew=1.0)), RolloutBatchProtocol) == [("rew", "TB301")]
    validate(Batch(goal=np.zeros(3), step=5), HasGoal)
    assert problems(Batch(goal=np.zeros(3), step="five"), HasGoal) == [("step", "TB202")]


def test_distributions_count_with_their_batch_shape():
    good = {"act": torch.zeros(3), "state": None, "logits": torch.zeros(3, 2)}
    validate(Batch(good, dist=Normal(torch.zeros(3), torch.ones(3))), DistBatchProtocol[Tensor])
    assert problems(Batch(good, dist=Categorical(torch.ones(5, 2))), DistBatchProtocol[Tensor]) == [("dist", "TB302")]
    assert problems(Batch(good, dist=torch.zeros(3)), DistBatchProtocol[Tensor]) == [("dist", "TB202")]


def test_unions_and_none():
    batch = Batch(fields())
    assert validate(batch, BatchWithReturnsProtocol | RolloutBatchProtocol) is batch
    assert validate(None, RolloutBatchProtocol | None) is None
    assert not conforms(None, RolloutBatchProtocol)
    # the alternative that is closest is explained
    with pytest.raises(SchemaError, match="is not a RolloutBatchProtocol"):
        validate(Batch(fields(rew=...)), LogpOldProtocol | RolloutBatchProtocol | None)


def test_an_unreadable_annotation_says_which_and_why():
    class Lost(BatchRecord):
        obs: NoSuchName

    with pytest.raises(DeclarationError, match=r"cannot read the annotation 'NoSuchName': .*Lost\.obs\)"):
        validate(Batch(), Lost)


def test_the_error_carries_its_problems_through_pickle_and_json():
    with pytest.raises(SchemaError) as caught:
        validate(Batch(fields(rew=...)), RolloutBatch)
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.problems == caught.value.problems
    assert str(error) == str(caught.value)
    assert isinstance(error, ValueError)
    assert isinstance(error.problems[0], Problem)
    assert error.to_dict()["problems"][0]["path"] == "rew"


def test_extend_makes_the_next_stage_and_leaves_the_source_alone():
    rollout = RolloutBatch(**fields())
    returns = np.ones(N)
    result = extend(rollout, BatchWithReturns, returns=returns)
    assert type(result) is BatchWithReturns
    assert result.returns is returns
    assert result.obs is rollout.obs
    assert "returns" not in rollout


def test_extend_into_a_protocol_gives_a_batch_and_keeps_other_fields():
    result = extend(Batch(fields(), done=np.zeros(N)), BatchWithReturnsProtocol, returns=[0.0] * N)
    assert type(result) is Batch
    assert result["done"].shape == (N,)
    assert result.returns.dtype == np.float64


def test_extend_names_misspelt_forgotten_and_short_fields():
    rollout = RolloutBatch(**fields())
    with pytest.raises(FieldNameError, match="BatchWithReturns declares no field 'retuns'; did you mean 'returns'"):
        extend(rollout, BatchWithReturns, retuns=np.zeros(N))
    with pytest.raises(FieldNameError, match=r"declares no field 'value_target'; did you mean 'returns'\?$"):
        extend(rollout, BatchWithReturns, value_target=np.zeros(N))
    with pytest.raises(FieldNameError, match=r"declares no field 'value_target'$"):
        extend(rollout, RolloutBatchProtocol, value_target=np.zeros(N))
    with pytest.raises(SchemaError, match=r"batch\.returns  missing"):
        extend(rollout, BatchWithReturns)
    with pytest.raises(SchemaError, match=r"N is 3 here, but 8 in"):
        extend(rollout, BatchWithReturns, returns=np.zeros(3))


def test_convert_follows_each_field_of_a_mixed_declaration():
    class Mixed(BatchRecord):
        logits: Tensor
        act: NDArray[Any]
        either: NDArray[Any] | Tensor

    batch = Batch(logits=np.zeros((2, 3)), act=torch.zeros(2), either=torch.zeros(2))
    result = convert(batch, Mixed)
    assert (type(result.logits), type(result.act), type(result.either)) == (Tensor, np.ndarray, Tensor)


def test_convert_names_the_field_that_cannot_become_a_tensor():
    with pytest.raises(LeafError, match=r"field 'rew': .* cannot become a tensor"):
        convert(Batch(fields(rew=np.zeros(N, np.longdouble))), RolloutBatch[Tensor])


@checked
def returns_of(
    scale: float, batch: RolloutBatchProtocol, *, more: RolloutBatchProtocol | None = None
) -> BatchWithReturns:
    """Docstring."""
    return Batch(batch, returns=batch.rew * scale)  # type: ignore[return-value]


def test_checked_names_the_argument_the_function_and_the_return():
    with pytest.raises(
        SchemaError,
        match=r"boundary   argument `batch` of tests.validation.test_validate.returns_of\(\)\s+"
        r"tests/validation/test_validate.py:\d+",
    ):
        returns_of(2.0, Batch())
    with pytest.raises(SchemaError, match="argument `batch`"):
        returns_of(2.0, batch=Batch())
    with pytest.raises(SchemaError, match="argument `more`"):
        returns_of(2.0, Batch(fields()), more=Batch())

    @checked
    def wrong(batch: Batch) -> RolloutBatchProtocol:
        return batch  # type: ignore[return-value]

    with pytest.raises(SchemaError, match="return value of"):
        wrong(Batch())
