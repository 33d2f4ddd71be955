"""From stage to stage with ``extend`` and ``convert``, starting from plain batches; protocols of one's own."""

from typing import Any, Protocol, TypeAlias, TypeVar, assert_type

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import (
    ActBatchProtocol,
    ActStateBatchProtocol,
    ArrayOrTensor,
    Batch,
    BatchProtocol,
    BatchRecord,
    BatchWithAdvantagesProtocol,
    BatchWithReturns,
    BatchWithReturnsProtocol,
    DynamicBatch,
    LogpOldBatch,
    LogpOldProtocol,
    ObsBatchProtocol,
    PrioBatchProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    conforms,
    convert,
    extend,
    validate,
)

Array = NDArray[Any]
Kind = TypeVar("Kind", bound=ArrayOrTensor)

# aliases, because of mypy#19192 before 2.2
TensorRollout: TypeAlias = RolloutBatchProtocol[Tensor]
TensorsWithLogp: TypeAlias = LogpOldProtocol[Tensor]


class GoalBatch(BatchProtocol, Protocol):
    """Transitions with a goal; the weight is there, and may be None."""

    goal: Array

    @property
    def weight(self) -> Array | None: ...


class Transition(BatchRecord):
    obs: Array
    act: Array
    discount: Array = np.ones(1)


def act(batch: ObsBatchProtocol) -> ActBatchProtocol:
    return Batch(act=np.zeros(len(batch.obs), int), extra=1.0)


def act_with_state(batch: ObsBatchProtocol[Tensor], state: Batch | None = None) -> ActStateBatchProtocol[Tensor]:
    out = Batch(act=batch.obs.argmax(-1), state=None)
    if state is not None:
        out.state = Batch(hidden=torch.zeros(len(batch), 2))
    return out


def rollout(n: int) -> RolloutBatchProtocol:
    b = Batch(obs=np.zeros((n, 2)), obs_next=np.zeros((n, 2)), act=[0] * n, rew=[1.0] * n, info={"id": list(range(n))})
    b.terminated = b.truncated = [False] * n
    return b


class EitherKind(RolloutBatch[Array | Tensor]):
    logp: Tensor


class Anything(RolloutBatch[Any]):
    logp: Tensor


def carried_over_where_it_may_fit(
    a: RolloutBatch, e: RolloutBatch[Array | Tensor], n: RolloutBatch[Any], d: DynamicBatch, p: BatchProtocol, x: Tensor
) -> None:
    extend(a, EitherKind, logp=x)
    extend(a, Anything, logp=x)
    extend(e, BatchWithReturns[Tensor], returns=x)
    extend(n, BatchWithReturns[Tensor], returns=x)
    extend(d, BatchWithReturns[Tensor], returns=x)
    extend(p, BatchWithReturns[Tensor], returns=x)


def carried_over_of_a_parameter(r: RolloutBatch[Kind], x: Tensor) -> None:
    extend(r, BatchWithReturns[Tensor], returns=x)


def carried_over_after_a_change_in_place(r: RolloutBatch, x: Tensor) -> None:
    r.to_torch_()
    extend(r, BatchWithReturns[Tensor], returns=x)


def carried_over_after_fields_were_set(r: RolloutBatch, x: Tensor) -> None:
    for name in ("obs", "act", "rew", "terminated", "truncated", "obs_next"):
        r[name] = x
    extend(r, BatchWithReturns[Tensor], returns=x)


def with_returns(b: RolloutBatchProtocol) -> BatchWithReturnsProtocol:
    return extend(b, BatchWithReturnsProtocol, returns=np.cumsum(b.rew[::-1])[::-1])


def whole_chain(n: int) -> LogpOldProtocol[Tensor]:
    b = with_returns(rollout(n))
    c = extend(b, BatchWithAdvantagesProtocol, adv=b.returns, v_s=[0.0] * n)
    assert_type(c.adv, Array)
    d = convert(c, BatchWithAdvantagesProtocol[Tensor])
    assert_type(d.adv, Tensor)
    return extend(d, TensorsWithLogp, logp_old=torch.zeros(n))


def skip_with_all_fields(n: int) -> LogpOldProtocol:
    zeros = np.zeros(n)
    return extend(rollout(n), LogpOldProtocol, returns=zeros, adv=zeros, v_s=zeros, logp_old=zeros)


def from_plain(n: int) -> float:
    b = Batch(obs=np.zeros((n, 2)), act=np.zeros(n), rew=np.ones(n), info=Batch(), obs_next=np.zeros((n, 2)))
    full = extend(b, RolloutBatch, terminated=[False] * n, truncated=np.zeros(n, bool))
    assert_type(full, RolloutBatch)
    b.terminated, b.truncated = np.zeros(n, bool), np.zeros(n, bool)
    again = extend(b, RolloutBatchProtocol)
    third = extend(again, BatchWithReturns, returns=again.rew)
    tensors = convert(b, TensorRollout)
    more = extend(tensors, BatchWithReturnsProtocol[Tensor], returns=tensors.rew.cumsum(0))
    b.weight = np.ones(n)
    prio: PrioBatchProtocol = b
    print(prio.weight, act(b).act, act(b[:1]).act, third.returns, full.rew)
    return float(more.returns.sum())


def from_plain_by_steps(n: int) -> LogpOldBatch:
    b = Batch(rollout(n).to_dict())
    b.update(returns=np.zeros(n), v_s=np.zeros(n), adv=np.zeros(n))
    return extend(b, LogpOldBatch, logp_old=np.zeros(n))


def of_unknown(table: dict[str, Any], n: int) -> RolloutBatchProtocol:
    b = Batch(**table)
    b["terminated"] = [False] * n
    print(len(b), b["obs"], "rew" in b, b.get("nothing"))
    checked = validate(b, RolloutBatchProtocol)
    if conforms(b, BatchWithReturnsProtocol):
        print(b.returns)
    more = extend(b, BatchWithReturnsProtocol, returns=np.zeros(n))
    print(more.returns)
    return checked


def goals(n: int) -> list[Array]:
    b = Batch(goal=np.zeros((n, 2)), weight=None)
    first: GoalBatch = b
    b.weight = np.ones(n)
    second: GoalBatch = b
    third = extend(Batch(goal=np.zeros((n, 2))), GoalBatch, weight=None)
    fourth = extend(Batch(weight=[1.0]), GoalBatch, goal=[[1.0, 2.0]])
    if second.weight is not None and third.weight is None:
        print(second.weight.sum())
    return [first.goal, second.goal, third.goal, fourth.goal]


def records() -> Array:
    a = extend(Batch(obs=np.zeros(1)), Transition, act=[1])
    b = extend(Batch(obs=np.zeros(1), act=[1]), Transition, discount=[0.5])
    c = extend(Batch(obs=np.zeros(1), act=[1]), Transition)
    print(a.discount, b.discount)
    return c.act


def conversions(n: int) -> Tensor:
    b = Batch(obs=np.zeros((n, 2)), nested={"a": [1.0], "deep": {"b": np.zeros(2)}}, t=torch.zeros(n))
    t = b.to_torch()
    print(t.nested.deep.b.sigmoid(), b.nested.deep.b.tolist(), t.t.dim())
    back = t.to_numpy()
    assert_type(back.nested.deep.b, Array)
    b.to_torch_()
    assert_type(b.nested.a, Tensor)
    b.to_numpy_()
    print(b.obs.astype(int), b.t.astype(int))
    b.obs = torch.as_tensor(b.obs)
    return b.obs.sigmoid()


def optional(flag: bool) -> ObsBatchProtocol:
    b = Batch(obs=np.zeros(2), info=Batch())
    if flag:
        b.mask = np.ones(2)
    return b


def union(flag: bool, n: int) -> RolloutBatchProtocol | ActBatchProtocol:
    if flag:
        return rollout(n)
    return Batch(act=[0])


def dist(n: int) -> ActBatchProtocol[Tensor]:
    out = Batch(logits=torch.zeros(n, 2), state=None)
    out.dist = torch.distributions.Normal(torch.zeros(n), 1.0)
    out.act = out.dist.mean
    return out


def main() -> None:
    b = Batch(obs=torch.zeros(3, 2), info=Batch())
    act_with_state(b), act_with_state(b, Batch(hidden=1))
    whole_chain(3), skip_with_all_fields(3), from_plain(3), from_plain_by_steps(3)
    of_unknown(rollout(2).to_dict(), 2), goals(2), records(), conversions(2), optional(True), union(False, 1), dist(2)


main()
