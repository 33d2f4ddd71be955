"""TRL at f2cd5771: ``GRPOTrainer._compute_loss`` and ``DPOTrainer._compute_loss``, of trainers without a dataset."""

from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import torch
from trl.trainer.dpo_trainer import DPOTrainer
from trl.trainer.grpo_trainer import GRPOTrainer

from tests.evidence.trainers.tokens import Learner, pairs, responses
from typedbatch.audit import Report, audit

GRPO = {
    "temperature": 1.0, "model_kwarg_keys": (), "top_entropy_quantile": 1.0, "off_policy_mask_threshold": None,
    "importance_sampling_level": "token", "beta": 0.0, "epsilon_low": 0.2, "epsilon_high": 0.2, "use_vllm": False,
    "_entropy_bonus_enabled": False, "args": SimpleNamespace(delta=None, use_bias_correction_kl=False, report_to=[]),
    "aux_loss_enabled": False, "state": SimpleNamespace(global_step=0),
}  # fmt: skip
DPO = {
    "ld_alpha": None, "precompute_ref_logps": True, "f_divergence_type": "reverse_kl", "loss_types": ["sigmoid"],
    "loss_weights": [1.0], "beta": 0.1, "use_weighting": False, "_total_train_tokens": 0, "aux_loss_enabled": False,
}  # fmt: skip
SAME = dict.fromkeys(("gather", "gather_for_metrics", "reduce"), lambda value, **_: value)
ACCELERATOR = SimpleNamespace(device=torch.device("cpu"), num_processes=1, is_main_process=True, **SAME)


class Trainer(Learner):
    """A model with a trainer of TRL."""

    def __init__(self, kind: Any, **attributes: Any) -> None:
        super().__init__()
        self.trl, metrics = kind.__new__(kind), defaultdict(lambda: defaultdict(list))
        vars(self.trl).update(attributes, model=self.model, accelerator=ACCELERATOR, _metrics=metrics)

    def grpo(self, batch: Any, micro: int = 8) -> None:
        """Make a step by the loss of GRPO, in micro-batches of a size."""
        self.trl.current_gradient_accumulation_steps, count = len(batch) // micro, batch.loss_mask.sum()
        inputs = (
            {
                "prompt_ids": part.prompt_ids, "prompt_mask": part.prompt_mask.long(), "num_items_in_batch": count,
                "completion_ids": part.response_ids, "completion_mask": part.response_mask.long(),
                "tool_mask": part.loss_mask.long(), "advantages": part.advantages, "old_per_token_logps": part.old_logp,
            }
            for part in batch.split(micro, shuffle=False)
        )  # fmt: skip
        self.step(self.trl._compute_loss(self.model, one) for one in inputs)  # noqa: SLF001  # that of compute_loss

    def dpo(self, batch: Any) -> None:
        """Make a step by the loss of DPO."""
        prompts, asked = torch.cat([batch.prompt_ids] * 2), torch.cat([batch.prompt_mask] * 2).long()
        ids, there = (torch.cat([batch[f"chosen_{name}"], batch[f"rejected_{name}"]]) for name in ("ids", "mask"))
        inputs = {"input_ids": torch.cat([prompts, ids], 1), "attention_mask": torch.cat([asked, there], 1)}
        inputs["completion_mask"] = torch.cat([torch.zeros_like(asked), there], 1)
        inputs |= {"ref_chosen_logps": batch.ref_chosen_logp, "ref_rejected_logps": batch.ref_rejected_logp}
        self.step([self.trl._compute_loss(self.model, inputs, False)])  # noqa: SLF001  # as above


def reports() -> Iterator[tuple[str, Report]]:
    """Yield the reports of GRPO with two of its losses, and of DPO."""
    for name in ("dapo", "grpo"):
        trainer = Trainer(GRPOTrainer, loss_type=name, **GRPO)
        batch = responses(trainer.model)
        yield f"GRPO, {name}", audit(trainer.grpo, batch, vary={"micro": [4, 16]}, like="ppo_clip")
    trainer = Trainer(DPOTrainer, **DPO)
    yield "DPO", audit(trainer.dpo, pairs(responses(trainer.model)))
