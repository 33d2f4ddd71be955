"""DPO with both sides in one forward pass, after TRL's concatenated_forward."""
# wrong: """DPO: in the concatenated forward pass, rejected responses have the mask of the chosen ones: other tokens count."""

import copy

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch.posttraining import Pairs

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 6
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
COUNT, BETA = 48, 0.2


class Decoder(nn.Module):
    """Causal attention with a bias for each distance, so it does not matter where a row begins."""

    def __init__(self, width=24, heads=2):
        super().__init__()
        self.heads = heads
        self.embed, self.distance = nn.Embedding(VOCAB, width), nn.Embedding(32, heads)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.lm_head = nn.Linear(width, VOCAB, bias=False)

    def hidden(self, ids, mask):
        size = ids.shape[1]
        place = torch.arange(size)
        gap = place[:, None] - place
        seen = (gap >= 0) & mask[:, None] | torch.eye(size, dtype=torch.bool)
        bias = self.distance(gap.clamp(0, 31)).permute(2, 0, 1).masked_fill(~seen[:, None], -1e9)
        x = self.embed(ids)
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias
        x = x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x = x + self.down(F.silu(self.up(self.norms[1](x))))
        return self.norms[2](x)

    def forward(self, ids, mask):
        return self.lm_head(self.hidden(ids, mask))


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
    trainer = DPOTrainer(Decoder(), BETA)
    rng = torch.Generator().manual_seed(seed)
    return trainer.update, lambda: (dataset(rng),)
