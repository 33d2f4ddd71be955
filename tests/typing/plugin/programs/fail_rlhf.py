"""Preference tuning on plain batches, with columns that are misspelt, of the other stage, or not there."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import Batch, BatchProtocol, BatchRecord, cat, extend, stack

Array = NDArray[Any]


class Completions(BatchProtocol, Protocol):
    @property
    def prompt(self) -> Tensor: ...
    @property
    def completion(self) -> Tensor: ...


class Scored(Completions, Protocol):
    @property
    def logp(self) -> Tensor: ...
    @property
    def ref_logp(self) -> Tensor: ...
    @property
    def rewards(self) -> Tensor: ...


class Pair(BatchProtocol, Protocol):
    @property
    def chosen(self) -> Completions: ...
    @property
    def rejected(self) -> Completions: ...


class Texts(BatchProtocol, Protocol):
    @property
    def text(self) -> Array: ...


class Preference(BatchRecord):
    chosen_logp: Tensor
    rejected_logp: Tensor


def score(batch: Completions) -> Scored:
    out = Batch(prompt=batch.prompt, completion=batch.completion)
    out.logp = batch.completion.float()
    out.reference_logp = out.logp
    out.rewards = torch.ones(len(batch))
    return out  # E: returned-too-little: ref_logp


def score_numpy(batch: Completions) -> Scored:
    out = Batch(prompt=batch.prompt, completion=batch.completion, logp=batch.completion, ref_logp=batch.completion)
    out.rewards = [0.0] * len(batch)
    return out  # E: returned-wrong-stage: rewards


def train(batch: Scored) -> None: ...
def train_pairs(batch: Pair) -> None: ...
def count(batch: Texts) -> int: ...  # type: ignore[empty-body]
def prefer(batch: Preference) -> None: ...


def columns(ids: Tensor) -> Tensor:
    b = Batch(prompts=ids, completions=ids, logp=ids.float(), ref_logp=ids.float())
    print(b.prompts, b.completions)
    print(b.prompt)  # E: misspelt-read: prompt
    b.kl = b.logp - b.ref_logp
    b.kl_mean = b.kl.mean()
    print(b.kls.mean())  # E: misspelt-read: kls
    b.rewards = torch.ones(3)
    b.rewards -= 0.1 * b.kl.sum(-1)
    print(b["reward"])  # E: misspelt-item: reward
    b["values"] = ids.float()
    print(b["values"], b["value"])  # E: misspelt-item: value
    b.adv, b.returns = b.rewards - b.rewards.mean(), b.rewards
    print(b.adv.mean(), b.advs)  # E: misspelt-read: advs
    return b.returns + b.entropy  # E: misspelt-read: entropy


def early(ids: Tensor) -> None:
    b = Batch(prompt=ids, completion=ids)
    train(b)  # E: missing-field: logp
    b.logp, b.ref_logp = ids.float(), ids.float()
    train(b)
    b.rewards = torch.zeros(3)
    train(b)
    train(b.to_numpy())  # E: wrong-stage
    train(b[:2])
    del b.ref_logp
    train(b)  # E: missing-field: ref_logp
    train(b[:2])


def pairs(ids: Tensor) -> None:
    b = Batch(chosen={"prompt": ids, "completion": ids}, rejected={"prompt": ids})
    train_pairs(b)  # E: missing-nested: rejected
    b.rejected.completion = ids
    train_pairs(b)
    print(b.chosen.completion, b.rejected.completion)
    print(b.chosen.completions)  # E: misspelt-nested: completions
    print(b.choosen.completion)  # E: misspelt-outer: choosen
    print(b["rejected"]["completion"])
    print(b["rejected"]["logp"])  # E: no-such-nested: logp
    b.chosen.logp = ids.float()
    print(b.chosen.logp, b.rejected.logp)
    b.rejected = {"prompt": ids}
    print(b.rejected.completion)  # E: replaced-nested: completion
    train_pairs(b)
    chosen = b.chosen
    print(chosen.prompt, chosen.mask)  # E: no-such-nested: mask


def texts(tokens: Tensor) -> None:
    b = Batch(text=["a", "bc"], score=[0.5, 1.0])
    print(count(b), b.text.shape, b.score.mean())
    print(b.texts)  # E: misspelt-read: texts
    b.text = tokens
    count(b)  # E: wrong-stage
    b.pop("text")
    count(b)  # E: missing-field: text
    print(b.text)
    print(b.score.dim())  # E: tensor-method-on-array: dim


def rows() -> None:
    b = Batch([{"prompt": [1, 2], "score": 1.0}, {"prompt": [3, 4], "score": 2.0}])
    print(b.prompt, b.score)
    print(b.prompts)  # E: misspelt-of-rows: prompts
    joined = stack([Batch(ids=np.zeros(3)), Batch(ids=np.ones(3))])
    print(joined.ids)
    print(joined.id)  # E: misspelt-of-stack: id
    longer = cat([joined, joined])
    longer.mask = longer.ids > 0
    print(longer.mask, longer.masks)  # E: misspelt-of-cat: masks
    print(longer[0].ids, longer[0].idx)  # E: misspelt-of-row: idx


def hidden(states: list[Tensor]) -> None:
    b = Batch(hidden=states, last=[torch.zeros(2), torch.ones(2)], tokens=[[1, 2], [3, 4]], temperature=0.7)
    print(b.hidden.sum(), b.last.mean(0), b.tokens.sum(), b.temperature.item())
    print(b.tokens.append(3))  # E: list-method-on-array: append
    print(b.last.astype(int))  # E: array-method-on-tensor: astype
    print(b.tokens.to("cpu"))  # E: tensor-method-on-array: to
    bad: str = b.hidden  # E: tensor-as-text: "Tensor"
    wrong: Tensor = b.tokens  # E: array-as-tensor: "Tensor"
    print(bad, wrong)


def prefers(ids: Tensor) -> None:
    b = Batch(chosen_logp=ids, rejected_logp=ids)
    prefer(b)  # E: plain-as-record
    prefer(extend(b, Preference))
    prefer(extend(Batch(chosen_logp=ids), Preference))  # E: extend-lacks: rejected_logp
    prefer(extend(Batch(chosen_logp=ids), Preference, rejected_logp=ids))
    prefer(extend(Batch(chosen_logp=ids), Preference, reject_logp=ids))  # E: extend-misspelt: reject_logp
    prefer(extend(Batch(chosen_logp=ids), Preference, rejected_logp=np.zeros(3)))  # E: extend-wrong-kind: rejected_logp


def settings(config: dict[str, Any]) -> None:
    b = Batch(**config)
    print(b["beta"], b.get("clip"))
    print(b.beta)
    b.beta = 0.1
    print(b.beta)
    print(b.betta)  # E: misspelt-of-unknown: betta
    b["beta"] = 0.1
    known = Batch(beta=0.1, **{"clip": 0.2})
    print(known.beta, known.clip)
    print(known.betas)  # E: misspelt-of-display: betas


class Trainer:
    def __init__(self, beta: float) -> None:
        self.config = Batch(beta=beta, lora={"rank": 8})

    def step(self) -> None:
        print(self.config.beta, self.config.lora.rank)
        print(self.config.bta)  # E: misspelt-of-self: bta
        print(self.config.lora.ranks)  # E: misspelt-nested-of-self: ranks
        print(self.config["betta"])  # E: misspelt-item-of-self: betta
