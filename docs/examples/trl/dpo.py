"""DPOTrainer of TRL 1.16 whose batches are ``Pairs``: ``python docs/examples/trl/dpo.py``."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from typing import Any

from datasets import Dataset
from trl import DPOConfig, DPOTrainer
from typing_extensions import override

import tiny
from typedbatch.bridges.collate_tokens import CollateTokens
from typedbatch.bridges.trl import pairs_to_trl
from typedbatch.posttraining import Pairs


# begin of the trainer
class CollatePairs(CollateTokens[Pairs]):
    """Rows of DPOTrainer's data set as ``Pairs``."""

    def __init__(self, pad_token_id: int) -> None:
        super().__init__(Pairs, left=["prompt_ids"], right=["chosen_ids", "rejected_ids"], pad_token_id=pad_token_id)

    @override
    def __call__(self, rows: Any, *, meta: Mapping[str, Any] | None = None) -> Pairs:
        names = {"ref_chosen_logps": "ref_chosen_logp", "ref_rejected_logps": "ref_rejected_logp"}
        return super().__call__([{names.get(name, name): row[name] for name in row} for row in rows], meta=meta)


class TypedDPOTrainer(DPOTrainer):
    """A trainer whose batches are ``Pairs``."""

    def _compute_loss(self, model: Any, inputs: Pairs, return_outputs: bool) -> Any:
        return super()._compute_loss(model, self._of_trl(inputs), return_outputs)

    def compute_ref_log_probs(self, model: Any, inputs: Pairs) -> Any:  # for precompute_ref_log_probs=True
        return super().compute_ref_log_probs(model, self._of_trl(inputs))

    def _of_trl(self, pairs: Pairs) -> dict[str, Any]:
        return pairs_to_trl(pairs, pad_token_id=self.processing_class.pad_token_id)


# end of the trainer


def make_trainer(kind: type[DPOTrainer], collator: Any = None, **settings: Any) -> DPOTrainer:
    rows = [
        {"prompt": f"w{i} " * (1 + i % 3), "chosen": "w1 w2 w3" if i % 2 else "w1", "rejected": "w9 " * (1 + i % 4)}
        for i in range(12)
    ]
    args = DPOConfig(**{
        "output_dir": tempfile.mkdtemp(), "use_cpu": True, "bf16": False, "gradient_checkpointing": False,
        "report_to": "none", "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True, "seed": 1,
        "max_steps": 3, "per_device_train_batch_size": 4, "learning_rate": 1e-2, **settings,
    })  # fmt: skip
    return kind(
        model=tiny.model(), ref_model=tiny.model(), processing_class=tiny.tokenizer(), args=args,
        train_dataset=Dataset.from_list(rows), data_collator=collator,
    )  # fmt: skip


if __name__ == "__main__":
    make_trainer(TypedDPOTrainer, CollatePairs(tiny.PAD)).train()
