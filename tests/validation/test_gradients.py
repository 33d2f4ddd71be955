"""Fields without a gradient: targets and weights of losses, in shipped records and in one's own."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
import torch
from jaxtyping import Float
from torch import Tensor

from typedbatch import (
    Batch,
    BatchRecord,
    BatchWithReturnsProtocol,
    LogpOldBatch,
    NoGradient,
    SchemaError,
    conforms,
    extend,
    validate,
)
from typedbatch.posttraining import Ready, ValueLossProtocol
from typedbatch.testing import example


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
