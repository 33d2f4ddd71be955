"""DQN, SAC and offline learning on plain batches, with targets, weights and losses under the wrong names."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Normal

from typedbatch import (
    ActBatchProtocol,
    Batch,
    DistLogProbBatchProtocol,
    ModelOutputBatchProtocol,
    ObsBatchProtocol,
    PrioBatchProtocol,
)

Array = NDArray[Any]


def nstep(rew: Array, gamma: float) -> tuple[Array, Array]:
    return rew * gamma, rew


def learn(batch: PrioBatchProtocol[Tensor]) -> None: ...


def q(batch: ObsBatchProtocol[Tensor], net: nn.Module) -> ModelOutputBatchProtocol[Tensor]:
    out = Batch(logits=net(batch.obs))
    out.act = out.logit.argmax(-1)  # E: misspelt-read: logit
    return out  # E: returned-too-little: state


def sample(batch: ObsBatchProtocol[Tensor], net: nn.Module) -> DistLogProbBatchProtocol[Tensor]:
    out = Batch(logits=net(batch.obs), state=None)
    out.mean, out.log_std = torch.zeros(3), torch.zeros(3)
    out.dist = Normal(out.mean, out.logstd.exp())  # E: misspelt-read: logstd
    out.act = out.dist.mean
    out.logp = torch.zeros(len(batch))
    return out  # E: returned-misspelt: log_prob


def targets(batch: PrioBatchProtocol[Tensor]) -> Tensor:
    b = Batch(obs=batch.obs_next.float(), done=batch.terminated.float())
    b.value = batch.rew * (1 - b.dones)  # E: misspelt-read: dones
    b.next_q = b.obs.sum(-1)
    print(b.q_next)  # E: misspelt-read: q_next
    print(b.value, b.next_q)
    return b.target  # E: no-such-field: target


def sampled(store: Batch, rows: Array) -> None:
    learn(store)  # E: plain-as-rollout
    picked = store[rows]
    print(picked["weight"])
    print(picked.weight)
    own = Batch(obs=store["obs"], obs_next=store["obs_next"], act=store["act"], rew=store["rew"], info=Batch())
    own.update({"terminated": store["terminated"], "truncated": store["truncated"]})
    print(own.terminated, own.truncated)
    learn(own)  # E: missing-field: weight
    own.update(wieght=torch.ones(3))
    learn(own)
    own.weight = np.ones(3)
    learn(own)  # E: wrong-stage: weight
    own["weight"] = torch.ones(3)
    learn(own)
    own.weight = None
    learn(own)  # E: wrong-kind: weight
    own.pop("weight", None)
    print(own.get("weight"))
    print(own["weight"])  # E: read-after-pop: weight


def logged(rows: list[dict[str, Any]]) -> None:
    b = Batch(rows)
    print(b["obs"])
    print(b.obs)
    clean = Batch(obs=b["obs"], act=[0, 1])
    clean.ret, clean.discount = nstep(np.ones(2), 0.9)
    print(clean.discounts)  # E: misspelt-read: discounts
    mask = clean.ret > 0
    print(clean[mask].obs, clean[mask].rets)  # E: misspelt-of-mask: rets
    print(clean.dropnull().act, clean.dropnull().acts)  # E: misspelt-of-method: acts
    print(clean.isnull().act, clean.isnull().actt)  # E: misspelt-of-method: actt
    print(clean.to_at_least_2d().ret, clean.to_at_least_2d().rett)  # E: misspelt-of-method: rett
    print(clean.copy().obs, clean.copy().obz)  # E: misspelt-of-method: obz
    weights = Batch(w=np.ones(2), n=2)
    weights["cdf"] = weights.w.cumsum()
    print(weights["cfd"])  # E: misspelt-item: cfd
    weights.setdefault("seed", [1, 2])
    print(weights.seed)
    print(weights.seeds)  # E: misspelt-read: seeds
    weights.update(Batch(extra=np.ones(2)))
    print(weights.extra)
    print(weights.extras)  # E: misspelt-read: extras
    weights.update([("pairs", np.ones(2))])
    print(weights["pairs"])


def joined() -> None:
    rows = Batch(td=np.zeros(3), mark=[1, 2, 3])
    rows[0] = Batch(td=1.0, mark=5)
    print(rows.td, rows.mark)
    print(rows.marks)  # E: misspelt-after-row-write: marks
    both = Batch.cat([{"td": np.zeros(2)}, Batch(td=np.ones(1))])
    print(both.td)
    print(both.tds)  # E: misspelt-of-cat: tds
    stacked = Batch.stack((rows, rows), axis=1)
    print(stacked.mark)
    print(stacked.age)  # E: no-such-field-of-stack: age
    stacked.age = np.zeros(3)
    print(stacked.age, rows.age)  # E: set-in-stack-only: age
    tensors = rows.to_torch()
    print(tensors.td.sigmoid())
    print(tensors.tdd)  # E: misspelt-of-torch: tdd
    print(tensors.mark.tolist(), tensors.mark.itemset(0))  # E: array-method-on-tensor: itemset


def greedy(batch: ObsBatchProtocol, eps: float) -> ActBatchProtocol:
    out = Batch(action=batch.obs.argmax(-1))
    out.random = np.random.rand(len(out.action)) < eps
    out.action[out.randm] = 0  # E: misspelt-in-index: randm
    if eps > 0:
        out.act = out.action
    return out  # E: returned-maybe: act


class Sac:
    def __init__(self) -> None:
        self.alpha = Batch(value=0.2, log=torch.zeros(1), target=-1.0)

    def tune(self, log_prob: Tensor) -> float:
        self.alpha.loss = (self.alpha.log * (log_prob + float(self.alpha.target)).detach()).mean()
        self.alpha.value = self.alpha.log.exp().item()
        print(self.alpha.loss, self.alpha.los)  # E: misspelt-of-self: los
        return float(self.alpha.vlaue)  # E: misspelt-of-self: vlaue
