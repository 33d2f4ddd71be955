"""Operations that ``torch.compile`` traces in one graph, and the messages of those that it cannot."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo as dynamo
from jaxtyping import Float, Int
from torch import Tensor, nn

from typedbatch import (
    Batch,
    BatchRecord,
    LogpOldBatch,
    LogpOldProtocol,
    cat,
    checked,
    checking,
    conforms,
    convert,
    extend,
    stack,
    validate,
)
from typedbatch.posttraining import PolicyLossProtocol, Ready, aggregate, token_logp
from typedbatch.testing import example

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning")  # torch's own
N = 8


class Steps(BatchRecord):
    obs: Float[Tensor, "N D"]
    act: Int[Tensor, "N"]
    logp_old: Float[Tensor, "N"]


class Full(Steps):
    adv: Float[Tensor, "N"]


def steps() -> Steps:
    torch.manual_seed(0)
    return Steps(obs=torch.randn(N, 4), act=torch.randint(2, (N,)), logp_old=torch.randn(N))


def full() -> Full:
    return extend(steps(), Full, adv=torch.randn(N))


def compiled(function: Callable[..., Any]) -> Any:
    dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager")


def tensors(value: Any) -> list[Tensor]:
    """Return all tensors of a result, in order."""
    if isinstance(value, Tensor):
        return [value]
    return [leaf for part in (value.values() if isinstance(value, Batch) else value) for leaf in tensors(part)]


ROWS = torch.tensor([0, 3, 5])


def written(batch: Any) -> Any:
    batch = batch.copy()
    batch.adv = batch.adv * 2
    batch["obs"] = batch.obs + 1
    return batch


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "a loss": lambda b: ((b.obs.sum(1) - b.logp_old).exp() * b.adv).mean(),
    "a record": lambda b: Full(obs=b.obs * 2, act=b.act, logp_old=b.logp_old, adv=b.adv),
    "a Batch": lambda b: Batch(x=b.obs * 2, inner={"y": b.adv}),
    "extend": lambda b: extend(Steps(obs=b.obs, act=b.act, logp_old=b.logp_old), Full, adv=b.adv * 2),
    "validate": lambda b: validate(b, Full).adv * 2,
    "validate to a protocol": lambda b: validate(b, Full) and b.adv,
    "conforms": lambda b: b.adv if conforms(b, Full) else b.logp_old,
    "slice": lambda b: b[2:5],
    "a row": lambda b: b[2],
    "row numbers": lambda b: b[ROWS],
    "row numbers that are computed": lambda b: b[b.logp_old.argsort()],
    "split": lambda b: [part.adv.sum() for part in b.split(4, shuffle=False)],
    "cat": lambda b: cat([b, b]),
    "stack": lambda b: stack([b, b]),
    "arithmetic": lambda b: Batch(adv=b.adv) * 2,
    "to": lambda b: b.to(dtype=torch.float64),
    "copy": lambda b: b.copy(),
    "set": written,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_it_is_one_graph_and_gives_the_same(name: str) -> None:
    operation, batch = OPERATIONS[name], full()
    expected = operation(batch)
    found = compiled(operation)(batch)
    assert type(found) is type(expected)
    assert all(torch.equal(*pair) for pair in zip(tensors(found), tensors(expected), strict=True))


@checked
def ppo_loss(batch: LogpOldProtocol[Tensor], actor: nn.Module) -> Tensor:
    logp = actor(batch.obs).log_softmax(-1).gather(1, batch.act[:, None]).squeeze(1)
    ratio = (logp - batch.logp_old).exp()
    return -torch.min(ratio * batch.adv, ratio.clamp(0.8, 1.2) * batch.adv).mean()


@checked
def grpo_loss(batch: PolicyLossProtocol, logp: Float[Tensor, "N R"]) -> Float[Tensor, ""]:
    ratio = (logp - batch.old_logp).exp()
    losses = -torch.min(ratio * batch.advantages, ratio.clamp(0.8, 1.2) * batch.advantages)
    return aggregate(losses, batch.loss_mask, "sequence")


def ppo_batch(rows: int = N) -> Any:
    fields = {"obs": torch.randn(rows, 4), "act": torch.randint(2, (rows,))}
    return example(LogpOldBatch[Tensor], N=rows, fields=fields)


def test_a_loss_of_ppo_with_its_gradients() -> None:
    actor, batch = nn.Linear(4, 2), ppo_batch()
    loss = ppo_loss(batch, actor)
    loss.backward()
    wanted = actor.weight.grad
    other = copy.deepcopy(actor)
    other.zero_grad()
    found = compiled(ppo_loss)(batch, other)
    found.backward()
    torch.testing.assert_close(found, loss)
    torch.testing.assert_close(other.weight.grad, wanted)


def test_the_first_call_of_a_checked_function_may_be_compiled() -> None:
    @checked
    def loss(batch: LogpOldProtocol[Tensor]) -> Tensor:
        return (batch.adv * batch.logp_old).mean()

    batch = ppo_batch()
    assert torch.equal(compiled(loss)(batch), (batch.adv * batch.logp_old).mean())


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(9, 4), nn.Linear(4, 9)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, use_cache: bool) -> Tensor:
        out: Tensor = self.head(self.embedding(input_ids))
        return out


def ready() -> Ready:
    ids = {"prompt_ids": torch.randint(9, (4, 3)), "response_ids": torch.randint(9, (4, 6))}
    return example(Ready, N=4, P=3, R=6, fields=ids)


def test_a_loss_of_grpo() -> None:
    batch, model = ready(), Model()

    def loss(batch: Ready) -> Tensor:
        return grpo_loss(batch, token_logp(model, batch, temperature=0.7))

    expected = loss(batch)
    torch.testing.assert_close(compiled(loss)(batch), expected)


def test_other_sizes_are_compiled_again() -> None:
    loss = compiled(ppo_loss)
    actor = nn.Linear(4, 2)
    for rows in (N, 5, 3):
        batch = ppo_batch(rows)
        torch.testing.assert_close(loss(batch, actor), ppo_loss(batch, actor))


def test_values_are_not_looked_at() -> None:
    batch = ready()
    batch.advantages[:] = float("nan")
    batch.loss_mask[:] = batch.response_mask[:] = True
    logp = torch.zeros(4, 6)
    with checking("values"):
        assert compiled(grpo_loss)(batch, logp).isnan()


def refusal(function: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(dynamo.exc.Unsupported) as caught:
        compiled(function)(*args)
    return str(caught.value)


def test_a_wrong_batch_is_refused() -> None:
    class Other(BatchRecord):
        old_logp: Tensor
        loss_mask: Tensor

    batch = ready()
    wrong = Other(old_logp=batch.old_logp, loss_mask=batch.loss_mask)
    text = refusal(grpo_loss, wrong, torch.zeros(4, 6))
    assert "a batch is not a PolicyLossProtocol; a call without torch.compile has the report" in text


def test_wrong_sizes_are_refused() -> None:
    assert "the arguments of grpo_loss() do not fit" in refusal(grpo_loss, ready(), torch.zeros(4, 5))

    @checked
    def mean(batch: PolicyLossProtocol) -> Float[Tensor, "N"]:
        return batch.advantages.mean(0)

    assert "the result of mean() does not fit" in refusal(mean, ready())


def test_what_belongs_before_the_graph_says_so() -> None:
    assert "call it before the compiled function" in refusal(lambda b: convert(b, Full), full())
    plain = Batch(full())
    validate(Batch(full()), Full)
    assert "validate the batch before the compiled function" in refusal(lambda b: validate(b, Full).adv, plain)

    class New(BatchRecord):
        adv: Tensor

    first = "the first validation by a class reads its declaration; validate a batch by it before compiling"
    assert first in refusal(lambda b: conforms(b, New), New(adv=torch.zeros(2)))


def test_without_fullgraph_these_run_between_graphs() -> None:
    def use(batch: Any) -> Tensor:
        return validate(batch, Full).adv * 2

    dynamo.reset()
    plain = Batch(full())
    assert torch.equal(torch.compile(use, backend="aot_eager")(plain), plain["adv"] * 2)
