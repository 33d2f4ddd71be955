"""Rejection sampling: best of n completions become training data; several rounds, data set grows."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import torch
from torch import Tensor

from typedbatch import Batch, BatchRecord, checked

Scorer = Callable[[Tensor], Tensor]


class Completions(BatchRecord):
    prompt: Tensor
    tokens: Tensor
    logp: Tensor


class Scored(Completions):
    score: Tensor


def sample(logits: Tensor, prompts: Tensor, n: int) -> Completions:
    dist = torch.distributions.Categorical(logits=logits[prompts].repeat_interleave(n, 0)[:, None].expand(-1, 4, -1))
    tokens = dist.sample()
    return Completions(prompt=prompts.repeat_interleave(n), tokens=tokens, logp=dist.log_prob(tokens).sum(-1))
    #! misspelt-keyword: return Completions(prompts=prompts.repeat_interleave(n), tokens=tokens, logp=dist.log_prob(tokens).sum(-1))


@checked
def score(batch: Completions, scorer: Scorer) -> Scored:
    return Scored(prompt=batch.prompt, tokens=batch.tokens, logp=batch.logp, score=scorer(batch.tokens))
    #! wrong-stage: return Completions(prompt=batch.prompt, tokens=batch.tokens, logp=batch.logp)


def best(batch: Scored, n: int) -> Scored:
    grouped = batch.score.view(-1, n)
    rows = grouped.argmax(1) + n * torch.arange(len(grouped))
    return batch[rows]


def likelihood(batch: Completions, logits: Tensor) -> Tensor:
    logp = torch.log_softmax(logits[batch.prompt], -1)
    return logp[:, None].expand(-1, batch.tokens.shape[1], -1).gather(-1, batch.tokens[..., None]).mean()
    #! misspelt-read: return logp[:, None].expand(-1, batch.tokens.shape[1], -1).gather(-1, batch.token[..., None]).mean()


class Archive:
    """The best completions of all rounds."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.heap: list[tuple[float, int, Batch]] = []
        self.info = Batch(seen=0, kept=0)

    def add(self, batch: Scored) -> None:
        for row in batch:
            self.info.seen += 1
            #! misspelt-read: self.info.count += 1
            entry = (float(row.score), int(self.info.seen), Batch(tokens=row.tokens, prompt=row.prompt))
            #! later-stage: entry = (float(row.reward), int(self.info.seen), Batch(tokens=row.tokens, prompt=row.prompt))
            if len(self.heap) < self.size:
                heapq.heappush(self.heap, entry)
                self.info.kept += 1
            else:
                heapq.heappushpop(self.heap, entry)

    def best(self) -> tuple[float, list[int]]:
        value, _, row = max(self.heap, key=lambda entry: entry[0])
        return value, [int(token) for token in row["tokens"]]


def main() -> None:
    torch.manual_seed(0)
    logits = torch.zeros(3, 6, requires_grad=True)
    optim = torch.optim.Adam([logits], lr=0.3)
    archive = Archive(5)
    pool: list[Scored] = []
    for step in range(4):
        completions = sample(logits.detach(), torch.arange(3), n=4)
        scored = score(completions, lambda tokens: (tokens == 2).float().sum(-1))
        chosen = best(scored, n=4)
        #! wrong-stage: chosen = best(completions, n=4)
        archive.add(chosen)
        pool.append(chosen)
        dataset = Batch.cat(pool)
        loss = -likelihood(dataset, logits)
        #! batch-for-array: loss = -likelihood(dataset.tokens, logits)
        optim.zero_grad()
        loss.backward()
        optim.step()
        print(f"{step} {scored.score.mean().item():.3f} {loss.item():.4f} {int(archive.info.kept)}")
    print(archive.best())


if __name__ == "__main__":
    main()
