"""Supervised fine-tuning: chat turns are tokenised, masked, packed and trained on."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchRecord, validate
from typedbatch.sequences import mask as length_mask
from typedbatch.sequences import pad

IGNORE = -100


class Packed(BatchRecord):
    input_ids: Tensor
    labels: Tensor
    position_ids: Tensor


class Tokenizer:
    def __init__(self) -> None:
        self.vocab = Batch(pad=0, user=1, assistant=2, eos=3)
        self.vocab.offset = 4

    def encode(self, text: str) -> np.ndarray:
        return np.array([int(self.vocab.offset) + (ord(c) - 97) % 26 for c in text if c.isalpha()])
        #! misspelt-read: return np.array([int(self.vocab.ofset) + (ord(c) - 97) % 26 for c in text if c.isalpha()])

    def turn(self, question: str, answer: str) -> Batch:
        head = np.concatenate([[self.vocab.user], self.encode(question), [self.vocab.assistant]])
        tail = np.concatenate([self.encode(answer), [self.vocab.eos]])
        #! misspelt-read: tail = np.concatenate([self.encode(answer), [self.vocab.end]])
        example = Batch(input_ids=np.concatenate([head, tail]).astype(np.int64))
        example.labels = example.input_ids.copy()
        #! misspelt-read: example.labels = example.token_ids.copy()
        example.labels[: len(head)] = IGNORE
        example.position_ids = np.arange(len(example.input_ids))
        return example


def pack(examples: Iterable[Batch], width: int) -> Iterator[Batch]:
    held: list[Batch] = []
    for example in examples:
        if sum(len(one) for one in held) + len(example) > width:
            yield Batch.cat(held)
            held = []
        held.append(example)
    if held:
        yield Batch.cat(held)


def collate(rows: list[Batch]) -> Packed:
    lengths = np.array([len(row) for row in rows])
    padded = pad(Batch.cat(rows), lengths)
    keep = length_mask(lengths)
    labels = np.where(keep, padded["labels"], IGNORE)
    #! misspelt-item: labels = np.where(keep, padded["label"], IGNORE)
    full = Batch(input_ids=padded["input_ids"], labels=labels, position_ids=padded["position_ids"])
    #! missing-field: full = Batch(input_ids=padded["input_ids"], labels=labels)
    return validate(full.to_torch(), Packed)
    #! wrong-kind: return validate(full.to_numpy(), Packed)


class Model(nn.Module):
    def __init__(self, vocab: int, width: int = 16) -> None:
        super().__init__()
        self.tokens, self.positions, self.head = nn.Embedding(vocab, width), nn.Embedding(64, width), nn.Linear(width, vocab)

    def forward(self, batch: Packed) -> Tensor:
        logits: Tensor = self.head(torch.tanh(self.tokens(batch.input_ids) + self.positions(batch.position_ids)))
        return logits


def loss_of(model: Model, batch: Packed) -> Tensor:
    logits = model(batch)[:, :-1]
    return nn.functional.cross_entropy(logits.flatten(0, 1), batch.labels[:, 1:].flatten(), ignore_index=IGNORE)
    #! misspelt-read: return nn.functional.cross_entropy(logits.flatten(0, 1), batch.label[:, 1:].flatten(), ignore_index=IGNORE)


def main() -> None:
    torch.manual_seed(0)
    tokenizer = Tokenizer()
    chats = [("hello", "hi there"), ("two and two", "four"), ("name", "a model"), ("bye", "see you soon"), ("why", "because")]
    packs = list(pack(itertools.starmap(tokenizer.turn, chats), width=24))
    model = Model(30)
    optim = torch.optim.Adam(model.parameters(), lr=5e-2)
    for epoch in range(4):
        loss = loss_of(model, collate(packs))
        optim.zero_grad()
        loss.backward()
        optim.step()
        print(epoch, len(packs), round(loss.item(), 4))


if __name__ == "__main__":
    main()
