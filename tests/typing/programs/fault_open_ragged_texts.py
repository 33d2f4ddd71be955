"""RLHF rollouts with ragged texts: object columns, chains of open batches, torch."""
from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

import torch

from typedbatch import Batch, objects

Reward = Callable[[str, str], float]


class Message(TypedDict):
    role: str
    content: str


def sample(prompts: list[str], n: int) -> Batch:
    rows: list[Batch] = []
    for number, prompt in enumerate(prompts):
        for k in range(n):
            answer = prompt[::-1] if k % 2 else prompt
            row = Batch(uid=number, prompt=prompt, answer=answer)
            row.ids = torch.tensor([len(prompt), len(answer), k])
            row.logp = torch.tensor(-0.5 * (k + 1))
            rows.append(row)
    return Batch.stack(rows)


def reverse_reward(prompt: str, answer: str) -> float:
    return float(prompt[::-1] == answer)


def length_reward(prompt: str, answer: str) -> float:
    return -abs(len(prompt) - len(answer)) / 10


def score(batch: Batch, rewards: dict[str, Reward]) -> Batch:
    batch.rewards = Batch()
    for name, function in rewards.items():
        values = [function(p, a) for p, a in zip(batch.prompt, batch.answer, strict=True)]
        batch.rewards[name] = torch.tensor(values)
    batch.total = sum(batch.rewards.values())
    return batch


def group_normalise(batch: Batch) -> Batch:
    batch.adv = torch.zeros(len(batch))
    for uid in set(batch.uid.tolist()):
        rows = torch.as_tensor(batch.uid == uid)
        part = batch.total[rows]
        batch.adv[rows] = (part - part.mean()) / (part.std() + 1e-4)
    return batch


def converse(batch: Batch) -> Batch:
    messages: list[list[Message]] = [
        [{"role": "user", "content": p}, {"role": "assistant", "content": a}]
        for p, a in zip(batch.prompt, batch.answer, strict=True)
    ]
    batch.messages = objects(messages)
    return batch


def select(batch: Batch, minimum: float) -> Batch:
    kept = batch[batch.adv > minimum]
    kept.weight = kept.adv.clamp(max=2.0)
    kept.weight = kept.weight / kept.weight.sum()
    return kept  # E: any-index [only: mypy, zuban]


def main() -> None:
    batch = sample(["abc", "hello", "noon"], 4)
    batch.policy = Batch(version=torch.ones(len(batch), dtype=torch.int64))
    batch.policy.version *= 3
    batch = converse(group_normalise(score(batch, {"reverse": reverse_reward, "length": length_reward})))
    print(batch.rewards.reverse.sum(), batch.adv.abs().max() < 2, batch.messages[0][1]["content"])
    kept = select(batch, 0.0)
    print(len(kept), kept.weight.sum().item(), set(kept.answer.tolist()))
    for mb in batch.split(5, shuffle=False, merge_last=True):
        mb.ratio = (mb.logp - mb.logp.mean()).exp()
        loss = -(mb.ratio.clamp(0.8, 1.2) * mb.adv).mean()
        print(len(mb), round(loss.item(), 2) > -5, mb.policy.version[0].item(), mb[0].messages[0]["role"])
    last = Batch(kept[-1:], note=["last"])
    last.policy.version += 1
    print(last.note[0], last.policy.version, batch.policy.version.max())


if __name__ == "__main__":
    main()
