"""A DPO trainer after TRL: pairs of responses, a frozen reference, label smoothing, gradient accumulation over micro-batches."""
import copy
import torch, torch.nn as nn, torch.nn.functional as F
from typedbatch.posttraining import Pairs, token_logp

class TinyLM(nn.Module):
    def __init__(self, vocab=12, d=24, out=None):
        super().__init__()
        self.tok, self.pos, self.qkv, self.out = nn.Embedding(vocab, d), nn.Embedding(16, d), nn.Linear(d, 3 * d), nn.Linear(d, out or vocab)
    def forward(self, input_ids, attention_mask, position_ids, use_cache=False):
        x, T = self.tok(input_ids) + self.pos(position_ids), input_ids.shape[1]
        allowed = (torch.ones(T, T).tril().bool() & attention_mask[:, None].bool()) | torch.eye(T).bool()
        x = x + F.scaled_dot_product_attention(*self.qkv(x).chunk(3, -1), attn_mask=allowed)
        return self.out(F.gelu(x))

class DPOTrainer:
    def __init__(self, model, ref_model, beta=0.2, label_smoothing=0.05, gradient_accumulation_steps=2):
        self.model, self.ref_model = model, ref_model.eval().requires_grad_(False)
        self.beta, self.label_smoothing, self.accumulation = beta, label_smoothing, gradient_accumulation_steps
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)

    def concatenated_forward(self, model, pairs):
        logps = token_logp(model, pairs.chosen, temperature=1.0), token_logp(model, pairs.rejected, temperature=1.0)
        return (logps[0] * pairs.chosen_mask).sum(-1), (logps[1] * pairs.rejected_mask).sum(-1)

    def dpo_loss(self, chosen_logps, rejected_logps, ref_chosen_logps, ref_rejected_logps):
        logits = self.beta * ((chosen_logps - ref_chosen_logps) - (rejected_logps - ref_rejected_logps))
        return -F.logsigmoid(logits) * (1 - self.label_smoothing) - F.logsigmoid(-logits) * self.label_smoothing, logits.detach()

    def training_step(self, pairs):
        total, right = 0.0, 0.0
        self.optimizer.zero_grad()
        for rows in torch.arange(len(pairs)).chunk(self.accumulation):
            part = pairs[rows]
            with torch.no_grad():
                reference = self.concatenated_forward(self.ref_model, part)
            losses, logits = self.dpo_loss(*self.concatenated_forward(self.model, part), *reference)
            loss = losses.sum() / len(pairs)
            loss.backward()
            total, right = total + loss.item(), right + (logits > 0).float().sum().item() / len(pairs)
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return {"loss": total, "rewards/accuracies": right}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = TinyLM()
    trainer, gen = DPOTrainer(model, copy.deepcopy(model)), torch.Generator().manual_seed(seed)

    def responses(n, longest, low, high):
        mask = torch.arange(longest) < torch.randint(2, longest + 1, (n, 1), generator=gen)
        return torch.randint(low, high, (n, longest), generator=gen) * mask, mask

    def draw(n=12):  # raters like small tokens
        prompt_mask = torch.arange(4) >= torch.randint(0, 3, (n, 1), generator=gen)
        prompt_ids = torch.randint(1, 12, (n, 4), generator=gen) * prompt_mask
        (chosen_ids, chosen_mask), (rejected_ids, rejected_mask) = responses(n, 5, 1, 9), responses(n, 6, 4, 12)
        return (Pairs(prompt_ids=prompt_ids, prompt_mask=prompt_mask, chosen_ids=chosen_ids, chosen_mask=chosen_mask,
                      rejected_ids=rejected_ids, rejected_mask=rejected_mask),)

    return trainer.training_step, draw
