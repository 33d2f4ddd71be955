"""Fields with one number per step: one shape in all of them, flags of bool, and how to declare several numbers."""

from __future__ import annotations

from typing import Annotated, Any, Protocol

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    Batch,
    BatchRecord,
    Flag,
    LogpOldBatch,
    LogpOldProtocol,
    PerStep,
    RolloutBatch,
    RolloutBatchProtocol,
    SchemaError,
    StepsFirst,
    checked,
    conforms,
    convert,
    extend,
    validate,
)
from typedbatch.buffers import ReplayBuffer
from typedbatch.schema import schema_of
from typedbatch.schema.explain import find_problems
from typedbatch.schema.generate import check_of

Array = NDArray[Any]
RESULTS = ("returns", "adv", "v_s", "logp_old")


def rollout(*steps: int, **instead: Any) -> Batch:
    steps = steps or (3,)
    flags = {name: np.zeros(steps, bool) for name in ("terminated", "truncated")}
    numbers = {name: np.zeros(steps) for name in ("rew", *RESULTS)}
    obs = {name: np.zeros((*steps, 4)) for name in ("obs", "obs_next")}
    return Batch({**obs, "act": np.zeros(steps, int), "info": Batch(), **numbers, **flags, **instead})


def report(batch: Batch, schema: Any = LogpOldProtocol) -> str:
    with pytest.raises(SchemaError) as caught:
        validate(batch, schema)
    return " ".join(str(caught.value).split())


@pytest.mark.parametrize("steps", [(3,), (5, 3), (3, 5), (2, 3, 4), (3, 1), (0,), (0, 2)])
@pytest.mark.parametrize("schema", [LogpOldProtocol, LogpOldBatch])
def test_any_layout_passes_that_all_fields_share(steps, schema):
    validate(rollout(*steps), schema)
    validate(convert(rollout(*steps), Batch).to_torch(), schema[Tensor])


@pytest.mark.parametrize("name", ["rew", "terminated", "truncated", *RESULTS])
@pytest.mark.parametrize("shape", [(3, 1), (3, 3), (3, 2, 2)])
def test_the_odd_one_out_is_reported(name, shape):
    dtype = bool if name in ("terminated", "truncated") else float
    text = report(rollout(**{name: np.zeros(shape, dtype)}))
    assert "(1 problem) " in text
    assert f"batch.{name} shape {shape}, expected one number per step, shape (3,) as " in text
    assert (f"batch.{name}.squeeze(-1)" in text) == (shape == (3, 1))
    assert f"class VectorLogpOldProtocol(LogpOldProtocol, Protocol): {name}: NDArray[Any]" in text


def test_the_record_that_the_error_names_takes_several_numbers():
    class VectorRolloutBatch(RolloutBatch):
        rew: Array

    class VectorProtocol(RolloutBatchProtocol, Protocol):
        rew: Array

    batch = rollout(rew=np.zeros((3, 2)))
    assert "class VectorRolloutBatch(RolloutBatch): rew: NDArray[Any]" in report(batch, RolloutBatch)
    tensors = batch.to_torch()
    assert "class VectorRolloutBatch(RolloutBatch[Tensor]): rew: Tensor" in report(tensors, RolloutBatch[Tensor])
    for schema in (VectorRolloutBatch, VectorProtocol):
        validate(batch, schema)
        assert not conforms(rollout(rew=np.zeros((3, 2)), truncated=np.zeros((3, 1), bool)), schema)


def test_columns_in_all_fields_do_not_go_with_rows_of_observations():
    columns = {name: np.zeros((3, 1)) for name in ("rew", *RESULTS)}
    flags = {name: np.zeros((3, 1), bool) for name in ("terminated", "truncated")}
    text = report(rollout(**columns, **flags))
    assert (
        "batch.rew shape (3, 1), expected one number per step, shape (3,) [TB303 wrong-shape] batch.rew.squeeze(-1)"
        in text
    )


def test_observations_and_actions_begin_with_the_steps():
    text = report(rollout(5, 3, obs=np.zeros((5, 4)), act=np.zeros((5, 4, 2))))
    assert (
        "batch.obs shape (5, 4), expected a shape that begins with (5, 3), that of rew, terminated, truncated" in text
    )
    assert "batch.act shape (5, 4, 2), expected a shape that begins with (5, 3)" in text
    nested = Batch(cam=np.zeros((5, 3, 8)), pos=np.zeros((5, 4)))
    text = report(rollout(5, 3, obs=nested), RolloutBatchProtocol[Array, Batch, Array])
    assert "batch.obs.pos shape (5, 4), expected a shape that begins with (5, 3)" in text
    assert "batch.obs.cam" not in text
    deep = Batch()
    deep["deep"] = deep
    assert "TB104" in report(rollout(5, 3, obs=deep), RolloutBatchProtocol[Array, Batch, Array])


def test_flags_are_bool():
    for dtype in (np.float32, np.int64, np.uint8):
        text = report(rollout(terminated=np.zeros(3, dtype)))
        assert f"batch.terminated dtype {np.dtype(dtype).name}, expected bool" in text
        assert "batch.terminated.astype(bool)" in text
    text = report(rollout(truncated=np.zeros(3)).to_torch(), LogpOldProtocol[Tensor])
    assert "batch.truncated.to(torch.bool)" in text


def test_a_kind_of_array_that_declares_its_dtype_keeps_it_for_flags():
    floats = {name: np.zeros(3, np.float32) for name in ("rew", "terminated", "truncated", "act")}
    obs = {name: np.zeros((3, 4), np.float32) for name in ("obs", "obs_next")}
    validate(rollout(**floats, **obs), RolloutBatch[NDArray[np.float32]])


def test_every_boundary_refuses_a_column():
    wrong = rollout(rew=np.zeros((3, 1)))

    @checked
    def train(batch: RolloutBatchProtocol) -> None:
        raise AssertionError("unreachable")

    buffer = ReplayBuffer[RolloutBatch, RolloutBatch](5)
    boundaries = (
        lambda: validate(wrong, RolloutBatch),
        lambda: convert(wrong, RolloutBatch[Tensor]),
        lambda: extend(rollout(), LogpOldBatch, adv=np.zeros((3, 1))),
        lambda: train(wrong),
        lambda: buffer.add(Batch({**wrong[0].to_dict(), "info": Batch()})),
    )
    for boundary in boundaries:
        with pytest.raises(SchemaError, match="one number per step"):
            boundary()
    assert len(buffer) == 0


class Own(BatchRecord):
    obs: Annotated[Array | Batch, StepsFirst]
    score: Annotated[Array | Tensor, PerStep]
    bonus: Annotated[Array | None, PerStep] = None
    stop: Annotated[Array, Flag]
    goal: Array


def test_records_of_your_own_may_say_so():
    good = {"obs": np.zeros((3, 4)), "stop": np.zeros(3, bool), "goal": np.zeros((3, 2))}
    for score in (np.zeros(3), torch.zeros(3)):
        assert conforms(Batch(**good, score=score), Own)
        assert conforms(Batch(**good, score=score, bonus=None), Own)
        assert conforms(Batch(**good, score=score, bonus=np.zeros(3)), Own)
        assert not conforms(Batch(**good, score=score, bonus=np.zeros((3, 1))), Own)
    assert not conforms(Batch(**good, score=torch.zeros(3, 1)), Own)


SHAPES = st.sampled_from([(2,), (2, 1), (2, 3), (2, 3, 1), (3,), ()])


@given(st.data())
def test_the_check_and_the_explanation_agree_with_the_rule(data):
    ones = {name: data.draw(SHAPES) for name in ("rew", "terminated", "truncated")}
    firsts = {name: data.draw(SHAPES) for name in ("obs", "obs_next", "act")}
    values = {name: np.zeros(shape, bool) for name, shape in {**ones, **firsts}.items()}
    batch = Batch(**values, info=Batch())
    one = ones["rew"]
    holds = {*ones.values()} == {one} and one != () and all(shape[: len(one)] == one for shape in firsts.values())
    for schema in map(schema_of, (RolloutBatch, RolloutBatchProtocol)):
        assert check_of(schema)(batch) == holds
        assert bool(find_problems(batch, schema)) != holds


@given(st.data())
def test_fields_that_may_be_absent_follow_the_same_rule(data):
    score, stop, bonus = (data.draw(SHAPES) for _ in range(3))
    present = data.draw(st.booleans())
    obs = data.draw(SHAPES)
    given_ = {"bonus": np.zeros(bonus)} if present else {}
    batch = Batch(obs=np.zeros(obs), score=np.zeros(score), stop=np.zeros(stop, bool), goal=np.zeros(2), **given_)
    ones = {score, stop, *[bonus] * present}
    holds = len(ones) == 1 and score[:1] == (2,) and obs[: len(score)] == score
    assert check_of(schema_of(Own))(batch) == holds
    assert bool(find_problems(batch, schema_of(Own))) != holds
