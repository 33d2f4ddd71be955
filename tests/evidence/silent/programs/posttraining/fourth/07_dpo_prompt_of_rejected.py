"""DPO with one forward pass over chosen and rejected responses, and log-probs of the responses only."""
# wrong: """Only the prompts of the chosen half are masked: the log-probs of rejected responses include the prompt's."""
import copy

import torch
from torch import nn
from torch.nn import functional as F

from typedbatch import extend
from typedbatch.posttraining import Pairs

VOCAB, PAD, EOS = 20, 0, 1
PAIRS, PROMPT, LONGEST = 16, 5, 7


class TinyLM(nn.Module):
    def __init__(self, dim: int = 32, window: int = 4) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.blocks = nn.ModuleList(nn.Conv1d(dim, dim, window) for _ in range(2))
        self.head = nn.Linear(dim, VOCAB)
        self.window = window

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(input_ids).transpose(1, 2)
        for conv in self.blocks:  # causal: sees itself and the three before
            x = x + F.gelu(conv(F.pad(x, (self.window - 1, 0))))
        return self.head(x.transpose(1, 2))


class DPOTrainer:
    def __init__(self, model: nn.Module, ref_model: nn.Module, beta: float = 0.2, lr: float = 1e-3) -> None:
        self.model, self.ref_model, self.beta = model, ref_model.eval().requires_grad_(False), beta
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    @staticmethod
    def right_padded(prompt, prompt_mask, response, response_mask):
        """Prompt and response without the gap, and where the response is."""
        ids, mask = torch.cat([prompt, response], 1), torch.cat([prompt_mask, response_mask], 1)
        order = (~mask).long().argsort(dim=1, stable=True)
        return ids.gather(1, order).where(mask.gather(1, order), PAD), mask.gather(1, order)

    def concatenated_inputs(self, pairs: Pairs):
        chosen = self.right_padded(pairs.prompt_ids, pairs.prompt_mask, pairs.chosen_ids, pairs.chosen_mask)
        rejected = self.right_padded(pairs.prompt_ids, pairs.prompt_mask, pairs.rejected_ids, pairs.rejected_mask)
        width = max(chosen[0].shape[1], rejected[0].shape[1])
        stacked = [torch.cat([F.pad(x, (0, width - x.shape[1])) for x in both]) for both in zip(chosen, rejected)]
        return stacked[0], stacked[1], pairs.prompt_mask.sum(1)

    def batch_logps(self, model, input_ids, attention_mask, prompt_lengths):
        logits = model(input_ids)[:, :-1]
        per_token = logits.log_softmax(-1).gather(2, input_ids[:, 1:, None]).squeeze(2)
        loss_mask = attention_mask.clone()
        for mask, length in zip(loss_mask, prompt_lengths.repeat(2).tolist()):
        # wrong: for mask, length in zip(loss_mask, prompt_lengths.tolist()):
            mask[:length] = False
        return (per_token * loss_mask[:, 1:]).sum(1).chunk(2)

    def add_reference(self, pairs: Pairs) -> Pairs:
        with torch.no_grad():
            chosen, rejected = self.batch_logps(self.ref_model, *self.concatenated_inputs(pairs))
        return extend(pairs, Pairs, ref_chosen_logp=chosen, ref_rejected_logp=rejected)

    def training_step(self, pairs: Pairs) -> dict[str, float]:
        pairs = self.add_reference(pairs)
        self.model.train()
        chosen, rejected = self.batch_logps(self.model, *self.concatenated_inputs(pairs))
        chosen_rewards = self.beta * (chosen - pairs.ref_chosen_logp)
        rejected_rewards = self.beta * (rejected - pairs.ref_rejected_logp)
        margin = chosen_rewards - rejected_rewards
        loss = -F.logsigmoid(margin).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return {
            "loss": loss.item(), "rewards/margins": margin.mean().item(),
            "rewards/accuracies": (margin > 0).float().mean().item(), "logps/chosen": chosen.mean().item(),
        }


def preferences() -> Pairs:
    """The better response counts up from the prompt's last token, the worse one is random."""
    prompt_mask = torch.arange(PROMPT) >= torch.randint(0, PROMPT - 1, (PAIRS, 1))
    prompt = torch.randint(2, VOCAB, (PAIRS, PROMPT)).where(prompt_mask, PAD)
    sides = {}
    for side in ("chosen", "rejected"):
        length = torch.randint(2, LONGEST + 1, (PAIRS, 1))
        mask = torch.arange(LONGEST) < length
        up = (prompt[:, -1:] + 1 + torch.arange(LONGEST) - 2) % (VOCAB - 2) + 2
        ids = up if side == "chosen" else torch.randint(2, VOCAB, (PAIRS, LONGEST))
        ids = ids.masked_fill(torch.arange(LONGEST) == length - 1, EOS)
        sides |= {f"{side}_ids": ids.where(mask, PAD), f"{side}_mask": mask}
    return Pairs(prompt_ids=prompt, prompt_mask=prompt_mask, **sides)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = TinyLM()
    trainer = DPOTrainer(model, copy.deepcopy(model))
    return trainer.training_step, lambda: (preferences(),)
