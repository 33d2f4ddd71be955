"""Right programs about records and batches, each below its name."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Float32, Int64
from torch import Tensor
from typedbatch import Batch

# ---- dataclass_fields
from dataclasses import dataclass
from beartype import beartype
from jaxtyping import jaxtyped
@jaxtyped(typechecker=beartype)
@dataclass
class Minibatch:
    obs: Float[Tensor, "N D"]
    adv: Float[Tensor, "N"]
    hidden: Float[Tensor, "1 N H"]

    def normalised(self) -> Float[Tensor, "_"]:
        return (self.adv - self.adv.mean()) / (self.adv.std() + 1e-8)

    def reset(self, done: Tensor) -> "Minibatch":
        keep = (1.0 - done.float())[None, :, None]
        return Minibatch(self.obs, self.adv, self.hidden * keep)

def main() -> None:
    mb = Minibatch(torch.randn(5, 3), torch.randn(5), torch.zeros(1, 5, 8))
    assert mb.normalised().shape == (5,)
    assert mb.reset(torch.zeros(5, dtype=torch.bool)).hidden.shape == (1, 5, 8)

# ---- named_tuple_outputs
from typing import NamedTuple, Protocol
class Out(NamedTuple):
    logits: Float[Tensor, "N A"]
    value: Float[Tensor, "N"]

class Policy(Protocol):
    def __call__(self, obs: Float[Tensor, "N D"]) -> Out: ...

def random_policy(obs: Float[Tensor, "N D"]) -> Out:
    return Out(torch.zeros(len(obs), 3), obs.new_zeros(obs.size(0)))

def entropy_bonus(policy: Policy, obs: Float[Tensor, "N D"]) -> Float[Tensor, "N"]:
    logits, value = policy(obs)
    p = logits.softmax(-1)
    return value - (p * p.log()).sum(-1)

def main() -> None:
    assert entropy_bonus(random_policy, torch.zeros(4, 2)).shape == (4,)

# ---- rec_list_of_steps_collected
class Step(Batch):
    obs: Float32[np.ndarray, "B 4"]
    rew: Float32[np.ndarray, "B"]

class Rollout(Batch):
    obs: Float32[np.ndarray, "T B 4"]
    rew: Float32[np.ndarray, "T B"]

def collect(steps: list[Step]) -> Rollout:
    return Rollout(obs=np.stack([s.obs for s in steps]), rew=np.stack([s.rew for s in steps]))

def flat(roll: Rollout) -> Step:
    t, b = roll.rew.shape
    return Step(obs=roll.obs.reshape(t * b, 4), rew=roll.rew.reshape(-1))

def main() -> None:
    f = np.float32
    roll = collect([Step(obs=np.zeros((3, 4), f), rew=np.full(3, i, f)) for i in range(5)])
    assert roll.obs.shape == (5, 3, 4) and flat(roll).rew.shape == (15,)

# ---- rec_methods_and_inheritance
class Step(Batch):
    obs: Float32[Tensor, "N 4"]
    done: Bool[Tensor, "N"]

    def alive(self) -> Float32[Tensor, "N"]:
        return (~self.done).float()

class Scored(Step):
    rew: Float32[Tensor, "N"]
    value: Float32[Tensor, "N 1"]

    def td(self, nxt: Float32[Tensor, "N 1"]) -> Float32[Tensor, "N 1"]:
        return self.rew[:, None] + 0.99 * self.alive()[:, None] * nxt - self.value

def main() -> None:
    s = Scored(obs=torch.zeros(3, 4), done=torch.tensor([True, False, False]), rew=torch.ones(3), value=torch.zeros(3, 1))
    assert s.td(torch.ones(3, 1)).shape == (3, 1) and s.alive().sum() == 2

# ---- rec_minibatch_and_views
class Rows(Batch):
    obs: Float32[Tensor, "N 4"]
    act: Int64[Tensor, "N"]
    adv: Float32[Tensor, "N"]

def pg(rows: Rows, w: Float32[Tensor, "4 A"]) -> Float32[Tensor, ""]:
    logp = (rows.obs @ w).log_softmax(-1)
    chosen = logp.gather(1, rows.act[:, None]).squeeze(1)
    return -(chosen * rows.adv).mean()

def main() -> None:
    n = 10
    rows = Rows(obs=torch.randn(n, 4), act=torch.randint(3, (n,)), adv=torch.randn(n))
    idx = torch.randperm(n)[:6]
    part = Rows(obs=rows.obs[idx], act=rows.act[idx], adv=rows.adv[idx])
    w = torch.randn(4, 3)
    assert pg(rows, w).shape == pg(part, w).shape == ()

# ---- rec_pairs_and_margin
import torch.nn.functional as F
class Pair(Batch):
    chosen: Int64[Tensor, "N L"]
    rejected: Int64[Tensor, "N M"]
    margin: Float32[Tensor, "N"]

def score(ids: Int64[Tensor, "B S"]) -> Float32[Tensor, "B"]:
    return (ids.float() * (ids != 0)).sum(-1) / (ids != 0).sum(-1)

def rm_loss(pair: Pair) -> Float32[Tensor, ""]:
    return -F.logsigmoid(score(pair.chosen) - score(pair.rejected) - pair.margin).mean()

def main() -> None:
    p = Pair(chosen=torch.ones(4, 5, dtype=torch.long), rejected=torch.ones(4, 7, dtype=torch.long), margin=torch.zeros(4))
    assert rm_loss(p).shape == ()

# ---- rec_rollout_with_bootstrap_row
class Rollout(Batch):
    rew: Float32[np.ndarray, "T B"]
    val: Float32[np.ndarray, "T+1 B"]
    done: Bool[np.ndarray, "T B"]

class Targets(Batch):
    adv: Float32[np.ndarray, "M"]
    ret: Float32[np.ndarray, "M"]

def targets(roll: Rollout) -> Targets:
    cont = np.float32(0.99) * ~roll.done
    delta = roll.rew + cont * roll.val[1:] - roll.val[:-1]
    adv = np.zeros_like(delta)
    last = np.zeros(delta.shape[1], dtype=np.float32)
    for t in range(len(delta))[::-1]:
        last = delta[t] + 0.95 * cont[t] * last
        adv[t] = last
    return Targets(adv=adv.reshape(-1), ret=(adv + roll.val[:-1]).reshape(-1))

def main() -> None:
    f = np.float32
    out = targets(Rollout(rew=np.ones((5, 2), f), val=np.zeros((6, 2), f), done=np.zeros((5, 2), bool)))
    assert out.adv.shape == out.ret.shape == (10,) and out.adv.dtype == f

# ---- rec_scalar_and_column_fields
class Target(Batch):
    q: Float32[Tensor, "N 1"]
    y: Float32[Tensor, "N"]
    alpha: Float32[Tensor, ""]

def loss(t: Target) -> Float32[Tensor, "N"]:
    y = t.y.unsqueeze(-1)
    err = (t.q - y).pow(2) * t.alpha
    return err.squeeze(-1)

def compare(a: Target, b: Target) -> Float32[Tensor, "N M"]:
    return a.q - b.y[None, :]

def main() -> None:
    t = Target(q=torch.zeros(3, 1), y=torch.ones(3), alpha=torch.tensor(0.5))
    u = Target(q=torch.zeros(6, 1), y=torch.ones(6), alpha=torch.tensor(0.5))
    assert loss(t).shape == (3,) and compare(t, u).shape == (3, 6)

# ---- rec_two_of_different_length
class Rows(Batch):
    obs: Float32[np.ndarray, "N 4"]
    rew: Float32[np.ndarray, "N"]

def merge(a: Rows, b: Rows) -> Rows:
    return Rows(obs=np.concatenate([a.obs, b.obs]), rew=np.concatenate([a.rew, b.rew]))

def make(n: int) -> Rows:
    return Rows(obs=np.zeros((n, 4), dtype=np.float32), rew=np.ones(n, dtype=np.float32))

def main() -> None:
    both = merge(make(3), make(5))
    assert both.obs.shape == (8, 4) and both.rew.shape == (8,)
    gap = make(3).rew.mean() - make(5).rew.mean()
    pairs = make(3).rew[:, None] < make(5).rew
    assert gap == 0 and pairs.shape == (3, 5)
