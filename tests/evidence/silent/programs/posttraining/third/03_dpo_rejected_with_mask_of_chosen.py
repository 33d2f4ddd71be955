"""DPO with both sides in one forward pass, after TRL's concatenated_forward."""
# wrong: """DPO: in the concatenated forward pass, rejected responses have the mask of the chosen ones: other tokens count."""
import copy

import torch
import torch.nn.functional as F
from torch import nn

from tests.evidence.silent.shared.digits import DIGITS, PAD, PROMPT, VOCAB
from tests.evidence.silent.shared.models import Decoder
from typedbatch.posttraining import Pairs

RESPONSE = 6
COUNT, BETA = 48, 0.2


def dataset(rng):
    """The better response counts on from the last digit of the prompt, the worse one is random; lengths differ."""
    prompt_mask = torch.arange(PROMPT) >= PROMPT - torch.randint(1, PROMPT + 1, (COUNT, 1), generator=rng)
    prompt_ids = torch.randint(DIGITS, (COUNT, PROMPT), generator=rng).where(prompt_mask, PAD)
    chosen_mask, rejected_mask = (
        torch.arange(RESPONSE) < torch.randint(2, RESPONSE + 1, (COUNT, 1), generator=rng) for _ in range(2)
    )
    chosen = (prompt_ids[:, -1:] + 1 + torch.arange(RESPONSE)) % DIGITS
    rejected = torch.randint(DIGITS, (COUNT, RESPONSE), generator=rng)
    return Pairs(
        prompt_ids=prompt_ids,
        prompt_mask=prompt_mask,
        chosen_ids=chosen.where(chosen_mask, PAD),
        chosen_mask=chosen_mask,
        rejected_ids=rejected.where(rejected_mask, PAD),
        rejected_mask=rejected_mask,
    )


def concatenated_forward(model, pairs):
    """Log-probs of the chosen and of the rejected responses."""
    prompt_ids, prompt_mask = pairs.prompt_ids.repeat(2, 1), pairs.prompt_mask.repeat(2, 1)
    ids = torch.cat([pairs.chosen_ids, pairs.rejected_ids])
    mask = torch.cat([pairs.chosen_mask, pairs.rejected_mask])
    # wrong: mask = torch.cat([pairs.chosen_mask, pairs.chosen_mask])
    logits = model(torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1))
    before = logits[:, prompt_ids.shape[1] - 1 : -1].log_softmax(-1)
    logps = (before.gather(-1, ids[..., None]).squeeze(-1) * mask).sum(1)
    return logps.chunk(2)


class DPOTrainer:
    def __init__(self, model, beta):
        self.model, self.beta = model, beta
        self.ref_model = copy.deepcopy(model).eval().requires_grad_(False)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)

    def loss(self, pairs):
        chosen, rejected = concatenated_forward(self.model, pairs)
        with torch.no_grad():
            ref_chosen, ref_rejected = concatenated_forward(self.ref_model, pairs)
        logits = self.beta * ((chosen - rejected) - (ref_chosen - ref_rejected))
        return -F.logsigmoid(logits).mean(), (logits > 0).float().mean()

    def update(self, pairs):
        metrics = []
        for part in pairs.split(12, rng=torch.default_generator):
            loss, accuracy = self.loss(part)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            metrics.append((loss.item(), accuracy.item()))
        return metrics[-1]


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = DPOTrainer(Decoder(VOCAB), BETA)
    rng = torch.Generator().manual_seed(seed)
    return trainer.update, lambda: (dataset(rng),)
