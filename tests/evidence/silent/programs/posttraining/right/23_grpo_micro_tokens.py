"""GRPO (DAPO's token mean, clip-higher) in micro-batches whose losses are divided by the tokens of the whole, two epochs."""
import torch
from typedbatch import Batch, extend, objects
from typedbatch.posttraining import Ready
from typedbatch.rows import groups

class Lm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.place, self.head = torch.nn.Embedding(12, 16), torch.nn.Embedding(12, 16), torch.nn.Linear(16, 12)
    def forward(self, ids, mask):
        x = (self.tok(ids) + self.place((mask.cumsum(1) - 1).clamp(min=0))) * mask[..., None]
        return self.head(torch.tanh(x + x.cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]))

def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, gen = Lm(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    def logp_of(b):
        logits = policy(torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1))
        logp = logits[:, b.prompt_ids.shape[1] - 1 : -1].log_softmax(-1).gather(-1, b.response_ids[..., None])
        return logp.squeeze(-1).masked_fill(~b.response_mask, 0.0)
    @torch.no_grad()
    def draw():
        mask = (torch.arange(5) >= torch.randint(0, 5, (4, 1), generator=gen)).repeat_interleave(4, 0)
        ids, alive = torch.randint(2, 12, (4, 5), generator=gen).repeat_interleave(4, 0) * mask, torch.ones(16).bool()
        for _ in range(7):
            new = torch.multinomial(policy(ids, mask)[:, -1].softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        b = Batch(prompt_ids=ids[:, :5], prompt_mask=mask[:, :5], response_ids=ids[:, 5:], response_mask=mask[:, 5:],
                  loss_mask=mask[:, 5:], uid=objects([i // 4 for i in range(16)]))
        b.rewards = ((b.response_ids > 6) & b.response_mask).sum(1) / b.response_mask.sum(1)
        group = groups(b, "uid", size=4)
        advantage = (b.rewards - group.mean(b.rewards)) / (group.std(b.rewards) + 1e-4)
        return (extend(b, Ready, old_logp=logp_of(b), advantages=advantage[:, None] * b.loss_mask),)
    def update(b):
        for _ in range(2):
            optimizer.zero_grad(); total = 0.0
            for part in (b[start : start + 4] for start in range(0, len(b), 4)):
                ratio, advantage = (logp_of(part) - part.old_logp)[part.loss_mask].exp(), part.advantages[part.loss_mask]
                loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.28) * advantage).sum() / b.loss_mask.sum()
                loss.backward(); total += loss.item()
            optimizer.step()
        return total
    return update, draw
