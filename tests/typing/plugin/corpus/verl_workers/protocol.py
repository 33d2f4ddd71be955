"""What travels between controller and workers: tensors, and settings beside them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from typedbatch import Batch


@dataclass
class DataProto:
    batch: Batch
    meta_info: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.batch)

    def chunk(self, n: int) -> list[DataProto]:
        size = -(-len(self) // n)
        return [DataProto(self.batch[i * size : (i + 1) * size], self.meta_info) for i in range(n)]

    def union(self, other: DataProto) -> DataProto:
        merged = Batch(self.batch)
        merged.update(other.batch)
        return DataProto(merged, {**self.meta_info, **other.meta_info})

    @staticmethod
    def concat(parts: list[DataProto]) -> DataProto:
        return DataProto(Batch.cat([part.batch for part in parts]), parts[0].meta_info)


def prompts(n: int, width: int, vocab: int) -> DataProto:
    batch = Batch(input_ids=torch.randint(1, vocab, (n, width)))
    batch.attention_mask = torch.ones_like(batch.input_ids)
    #! misspelt-read: batch.attention_mask = torch.ones_like(batch.input_id)
    batch.position_ids = batch.attention_mask.cumsum(-1) - 1
    #! misspelt-read: batch.position_ids = batch.attn_mask.cumsum(-1) - 1
    batch.uid = torch.arange(n)
    return DataProto(batch, {"temperature": 1.0, "vocab": vocab})
