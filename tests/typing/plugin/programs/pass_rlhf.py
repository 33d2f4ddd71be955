"""Preference tuning on plain batches: prompts, completions, log-probabilities, rewards, KL, DPO pairs."""

from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypedDict, assert_type

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from typedbatch import Batch, BatchProtocol, BatchRecord, cat, convert, extend, stack, validate
from typedbatch.posttraining import HasPairRefLogp

Array = NDArray[Any]


class Completions(BatchProtocol, Protocol):
    """What the policy wrote."""

    @property
    def prompt(self) -> Tensor: ...
    @property
    def completion(self) -> Tensor: ...
    @property
    def mask(self) -> Tensor: ...


class Scored(Completions, Protocol):
    """Completions with rewards and log-probabilities of both models."""

    @property
    def logp(self) -> Tensor: ...
    @property
    def ref_logp(self) -> Tensor: ...
    @property
    def rewards(self) -> Tensor: ...


class Pair(BatchProtocol, Protocol):
    """A chosen and a rejected completion."""

    @property
    def chosen(self) -> Completions: ...
    @property
    def rejected(self) -> Completions: ...


class Texts(BatchProtocol, Protocol):
    """Texts, one each row."""

    @property
    def text(self) -> Array: ...


class Preference(BatchRecord):
    chosen_logp: Tensor
    rejected_logp: Tensor


class Row(TypedDict):
    prompt: list[int]
    score: float


def sample(rows: int, length: int) -> Completions:
    batch = Batch(prompt=torch.zeros(rows, 3, dtype=torch.long))
    batch.completion = torch.ones(rows, length, dtype=torch.long)
    batch.mask = batch.completion.ne(0)
    return batch


def logprobs(logits: Tensor, tokens: Tensor) -> Tensor:
    return logits.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)


def score(batch: Completions) -> Scored:
    logits = torch.zeros(len(batch), batch.completion.shape[1], 5)
    out = Batch(prompt=batch.prompt, completion=batch.completion, mask=batch.mask)
    out.logp = logprobs(logits, batch.completion)
    out.ref_logp = logprobs(logits * 2, batch.completion)
    out.rewards = torch.ones(len(batch))
    return out


def kl_penalty(batch: Scored, beta: float) -> Scored:
    kl = (batch.logp - batch.ref_logp) * batch.mask
    return extend(batch, Scored, rewards=batch.rewards - beta * kl.sum(-1))


def whiten(values: Tensor) -> Tensor:
    return (values - values.mean()) / (values.std() + 1e-8)


def ppo_step(scored: Scored, clip: float = 0.2) -> dict[str, float]:
    b = Batch(scored_logp=scored.logp, mask=scored.mask.float(), rewards=scored.rewards)
    b.kl = scored.logp - scored.ref_logp
    b.adv = whiten(b.rewards)[:, None]
    b.ratio = (scored.logp - b.scored_logp).exp()
    b.loss = -torch.min(b.ratio * b.adv, b.ratio.clamp(1 - clip, 1 + clip) * b.adv) * b.mask
    stats = Batch(loss=b.loss.mean(), kl=b.kl.mean(), clipped=(b.ratio - 1).abs().gt(clip).float().mean())
    stats.reward = b.rewards.mean()
    return {name: float(value) for name, value in stats.items()}


def grpo(scores: Array, groups: int) -> Array:
    b = Batch(scores=scores.reshape(groups, -1))
    b.mean = b.scores.mean(1, keepdims=True)
    b.std = b.scores.std(1, keepdims=True)
    b.adv = (b.scores - b.mean) / (b.std + 1e-6)
    flat: Array = b.adv.reshape(-1)
    return flat


def pairs(rows: int) -> Pair:
    good = Batch(prompt=torch.zeros(rows, 2), completion=torch.ones(rows, 3), mask=torch.ones(rows, 3))
    bad = good.copy()
    bad.completion = torch.zeros(rows, 4)
    bad.mask = torch.ones(rows, 4)
    return Batch(chosen=good, rejected=bad)


def read_pairs(rows: int) -> int:
    both = Batch(chosen={"ids": torch.ones(rows, 3)}, rejected={"ids": torch.ones(rows, 4)}, margin=[0.0] * rows)
    both.chosen.logp = both.chosen.ids.sum(-1)
    both.rejected["logp"] = both.rejected.ids.sum(-1)
    assert_type(both.chosen.logp, Tensor)
    margins = both.chosen.logp - both.rejected.logp
    both.margin = margins
    assert_type(both.margin, Tensor)
    return int(both[0].chosen.ids.numel()) + len(both)


def dpo(pair: Pair, beta: float) -> Tensor:
    b = Batch(chosen=pair.chosen.completion.sum(-1), rejected=pair.rejected.completion.sum(-1))
    b.logits = beta * (b.chosen - b.rejected)
    b["loss"] = -torch.nn.functional.logsigmoid(b.logits)
    loss: Tensor = b["loss"]
    return loss.mean()


def preference(rows: int) -> Preference:
    return Preference(chosen_logp=torch.zeros(rows), rejected_logp=torch.ones(rows))


def tokenise(texts: Sequence[str]) -> Batch:
    longest = max(map(len, texts))
    b = Batch(text=list(texts), length=[len(text) for text in texts])
    b.ids = np.zeros((len(texts), longest), np.int64)
    for row, text in enumerate(texts):
        b.ids[row, : b.length[row]] = [ord(letter) for letter in text]
    b.mask = b.ids != 0
    return b


def count(batch: Texts) -> int:
    return sum(len(text) for text in batch.text)


def texts() -> int:
    b = Batch(text=["a", "bc"], score=[0.5, 1.0])
    total = count(b)
    b.text = np.array(["d", "e"], dtype=object)
    return total + count(b) + count(b[:1])


def collate(rows: list[Row]) -> Array:
    b = Batch(prompt=[row["prompt"] for row in rows], score=[row["score"] for row in rows])
    prompts: Array = b.prompt
    print(b.score.mean(), b.prompt.shape)
    return prompts


def collate_dicts() -> Array:
    b = Batch([{"prompt": [1, 2], "origin": {"id": 3}}, {"prompt": [3, 4], "origin": {"id": 4}}])
    print(b.origin.id, b.prompt.shape)
    first = Batch({"prompt": np.array([1, 2]), "origin": dict(id=3, source="web")})
    print(first.origin.id, first.origin.source.upper(), first["origin"]["id"])
    joined = stack([{"prompt": np.array([1, 2])}, {"prompt": np.array([3, 4])}])
    return joined.prompt


def replay(rounds: int) -> Scored:
    parts = [score(sample(2, 3)) for _ in range(rounds)]
    return cat(parts)


def plain_replay(rounds: int) -> Tensor:
    parts = []
    for step in range(rounds):
        part = Batch(completion=torch.ones(2, 3), step=[step] * 2)
        part.rewards = part.completion.sum(-1)
        parts.append(part)
    whole = cat(parts)
    print(whole.step, whole.completion)
    whole.adv = whiten(whole.rewards)
    for mini in whole.split(2):
        print(mini.adv.mean(), mini.step)
    best = whole[int(whole.rewards.argmax())]
    print(best.completion, best["adv"])
    return whole.adv


def to_numpy_and_back(scored: Scored) -> Array:
    plain = Batch(logp=scored.logp, kl=scored.logp - scored.ref_logp)
    logged = plain.to_numpy()
    print(logged.kl.tolist(), plain.kl.detach())
    plain.to_numpy_()
    assert_type(plain.kl, Array)
    plain.to_torch_()
    print(plain.logp.detach())
    return logged.logp


def list_of_tensors() -> Tensor:
    b = Batch(hidden=[torch.zeros(2), torch.ones(2)], tokens=[[1, 2], [3, 4]], both=(torch.ones(1), torch.ones(1)))
    assert_type(b.hidden, Tensor)
    assert_type(b.both, Tensor)
    assert_type(b.tokens, Array)
    b.hidden = [b.hidden, b.hidden]
    return b.hidden.sum(0)


class Trainer:
    """Keeps a plain batch of statistics."""

    def __init__(self, beta: float) -> None:
        self.config = Batch(beta=beta, lora={"rank": 8, "alpha": 16.0})
        self.history: list[Batch] = []
        self.open: Batch = Batch()

    def step(self, batch: Completions) -> dict[str, float]:
        scored = kl_penalty(score(batch), float(self.config.beta))
        stats = ppo_step(scored)
        self.history.append(Batch(stats))
        self.config.steps = len(self.history)
        self.open["loss"] = stats["loss"]
        return stats

    def summary(self) -> tuple[Any, Any, Any]:
        whole = stack(self.history)
        return whole["loss"], self.config.steps, self.config.lora.rank

    def minibatches(self, scored: Scored) -> Iterator[Scored]:
        yield from scored.split(1)
        yield scored


def unknown(settings: dict[str, Any], row: Row) -> float:
    b = Batch(**settings)
    b["beta"] = 0.1
    typed = validate(Batch(score=np.array(row["score"])), BatchProtocol)
    known = Batch(row)
    known.extra = known.score + 1
    print(b["beta"], b["anything"], typed["score"], known.prompt.sum())
    return float(known.extra)


class Compared(HasPairRefLogp):
    """Pairs of a class of one's own, which have the two sides that all pairs have."""


def sides(compared: Compared) -> int:
    return len(compared.chosen) + len(compared.rejected.response_ids)


def main() -> None:
    scored = score(sample(2, 3))
    trainer = Trainer(0.1)
    trainer.step(sample(2, 3)), trainer.step(sample(3, 3)), trainer.summary()
    assert len(list(trainer.minibatches(scored))) == 3
    grpo(np.arange(6.0), 2), dpo(pairs(2), 0.1), read_pairs(2), preference(2)
    assert validate(tokenise(["ab", "c"]), Texts).text[0] == "ab"
    texts(), collate([{"prompt": [1], "score": 2.0}]), collate_dicts(), replay(2), plain_replay(2)
    to_numpy_and_back(scored), list_of_tensors()
    unknown({"anything": 1}, {"prompt": [1], "score": 2.0})
    convert(Batch(text=["a"]), Texts)


main()
