"""Every record is built by keywords, on both stages, and what it holds is known."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.distributions import Categorical, Distribution
from typing_extensions import assert_type

from typedbatch import (
    ActBatch,
    ActStateBatch,
    Batch,
    BatchProtocol,
    BatchRecord,
    BatchWithAdvantages,
    BatchWithReturns,
    DistBatch,
    DistLogProbBatch,
    FQFBatch,
    ImitationBatch,
    LogpOldBatch,
    ModelOutputBatch,
    ObsBatch,
    PrioBatch,
    QuantileRegressionBatch,
    RecurrentState,
    RolloutBatch,
    RolloutBatchProtocol,
    validate,
)

Array = NDArray[Any]

N = 6
x: Array = np.zeros((N, 4), np.float32)
f: Array = np.zeros(N, np.float32)
i: Array = np.zeros(N, np.int64)
done: Array = np.zeros(N, np.bool_)
t: Tensor = torch.zeros(N, 4)
dist: Distribution = Categorical(logits=t)

# numpy stage
obs: ObsBatch = ObsBatch(obs=x, info=Batch())
act: ActBatch = ActBatch(act=i)
act_state: ActStateBatch = ActStateBatch(act=i, state=None)
output: ModelOutputBatch = ModelOutputBatch(act=i, state=Batch(hidden=x), logits=x)
drawn: DistBatch = DistBatch(act=i, state=x, logits=x, dist=dist)
scored: DistLogProbBatch = DistLogProbBatch(act=i, state=None, logits=x, dist=dist, log_prob=f)
rollout: RolloutBatch = RolloutBatch(
    obs=x, info=Batch(), obs_next=x, act=i, rew=f, terminated=done, truncated=done
)
prio: PrioBatch = PrioBatch(
    obs=x, info=Batch(), obs_next=x, act=i, rew=f, terminated=done, truncated=done, weight=f
)
returns: BatchWithReturns = BatchWithReturns(
    obs=x, info=Batch(), obs_next=x, act=i, rew=f, terminated=done, truncated=done, returns=f
)
advantages: BatchWithAdvantages = BatchWithAdvantages(
    obs=x, info=Batch(), obs_next=x, act=i, rew=f, terminated=done, truncated=done, returns=f, adv=f, v_s=f
)
ready: LogpOldBatch = LogpOldBatch(
    obs=x, info=x, obs_next=x, act=i, rew=f, terminated=done, truncated=done, returns=f, adv=f, v_s=f, logp_old=f
)
recurrent: RecurrentState = RecurrentState(hidden=x, cell=x)
quantile: QuantileRegressionBatch = QuantileRegressionBatch(act=i, state=None, logits=x, taus=x)
fqf: FQFBatch = FQFBatch(act=i, state=None, logits=x, fractions=Batch(taus=x), quantiles_tau=x)
imitation: ImitationBatch = ImitationBatch(act=i, state=None, logits=x, q_value=x, imitation_logits=x)

assert_type(obs.obs, Array)
assert_type(act.act, Array)
assert_type(act_state.state, BatchProtocol | Array | None)
assert_type(output.logits, Array)
assert_type(drawn.dist, Distribution)
assert_type(scored.log_prob, Array)
assert_type(rollout.obs_next, Array)
assert_type(rollout.terminated, Array)
assert_type(rollout.info, BatchProtocol | Array)
assert_type(prio.weight, Array)
assert_type(returns.returns, Array)
assert_type(advantages.v_s, Array)
assert_type(ready.logp_old, Array)
assert_type(recurrent.cell, Array)
assert_type(quantile.taus, Array)
assert_type(fqf.fractions, BatchProtocol | Array)
assert_type(fqf.quantiles_tau, Array)
assert_type(imitation.q_value, Array)
assert_type(imitation.imitation_logits, Array)

# torch stage: inferred from what is given; where no field says it, as in ActBatch(act=...), one says it oneself
collected = RolloutBatch(obs=t, info=Batch(), obs_next=t, act=t, rew=t, terminated=t, truncated=t)
assert_type(collected, RolloutBatch[Tensor])
assert_type(collected.rew, Tensor)
lstm = RecurrentState(hidden=t, cell=t)
assert_type(lstm, RecurrentState[Tensor])
acting = ActStateBatch[Tensor](act=t, state=None)
assert_type(acting, ActStateBatch[Tensor])
assert_type(acting.act, Tensor)
assert_type(acting.state, BatchProtocol | Tensor | Array | None)
carrying = ActStateBatch[Tensor](act=t, state=lstm)
watching = ObsBatch[Tensor](obs=t, info=Batch())
assert_type(watching.obs, Tensor)
sampled: DistBatch[Tensor] = DistBatch(act=t, state=None, logits=t, dist=dist)
assert_type(sampled.logits, Tensor)


# a nested observation, declared once, on either stage
class Pixels(BatchRecord):
    cam: Array
    pos: Array


def seen_from(start: Array) -> RolloutBatch[Array, Pixels]:
    now, then = Pixels(cam=start, pos=start), Pixels(cam=start + 1, pos=start + 1)
    return RolloutBatch(obs=now, info=Batch(), obs_next=then, act=i, rew=f, terminated=done, truncated=done)


seen = seen_from(x)
assert_type(seen.obs, Pixels)
assert_type(seen.obs.cam, Array)
assert_type(seen.obs_next.pos, Array)

# precise dtypes and ranks go in without complaint, and come out again
Vector = np.ndarray[tuple[int], np.dtype[np.float32]]
precise: Vector = np.zeros(N, np.float32)
state_precise = RecurrentState(hidden=precise, cell=precise)
assert_type(state_precise.hidden, Vector)
wider: RecurrentState = state_precise

# as people write it: what numpy makes has a rank and a dtype of its own in each field
def asks_record(batch: RolloutBatch) -> Array:
    return batch.rew


def asks_protocol(batch: RolloutBatchProtocol) -> Array:
    return batch.rew


def fresh(n: int) -> RolloutBatch:
    flags = {"terminated": np.zeros(n, np.bool_), "truncated": np.zeros(n, np.bool_)}
    made = RolloutBatch(
        obs=np.zeros((n, 4)),
        info=Batch(),
        obs_next=np.zeros((n, 4)),
        act=np.arange(n),
        rew=np.zeros(n),
        **flags,
    )
    asks_record(made)
    asks_record(made[: n // 2])
    asks_protocol(made)
    kept: RolloutBatch = made
    kept.rew = kept.rew * 2
    kept.obs = np.ones((n, 4), np.float32)
    return made


assert_type(fresh(N).terminated, Array)

# lists, numbers and dicts belong into an open batch, which converts them
open_batch = Batch(obs={"cam": [[1.0], [2.0]]}, act=[0, 1], rew=[0.5, 1.0])
assert_type(open_batch, Batch)
assert_type(validate(open_batch, ActBatch), ActBatch)
