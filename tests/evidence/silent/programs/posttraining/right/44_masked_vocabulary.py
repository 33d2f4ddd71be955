"""Constrained decoding: logits of forbidden tokens are -inf in the sampler and the loss; group advantages, entropy bonus."""
import torch
from typedbatch import Batch, objects
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
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    def logps(b):
        logits = policy(torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1))
        banned = ~b.allowed & b.loss_mask[..., None]  # at padding nothing is, so that no softmax is over nothing
        every = logits[:, b.prompt_ids.shape[1] - 1 : -1].masked_fill(banned, -torch.inf).log_softmax(-1)
        return every.gather(-1, b.response_ids[..., None])[..., 0], every.masked_fill(banned, 0.0)
    @torch.no_grad()
    def draw():
        mask = (torch.arange(4) >= torch.randint(0, 4, (4, 1), generator=gen)).repeat_interleave(4, 0)
        ids, alive = torch.randint(2, 12, (4, 4), generator=gen).repeat_interleave(4, 0) * mask, torch.ones(16).bool()
        allowed = (torch.rand(4, 7, 12, generator=gen) < 0.5).repeat_interleave(4, 0)  # one grammar for each prompt
        allowed[..., 0], allowed[..., 1:3] = False, True  # never padding, always the end and one more
        for t in range(7):
            logits = policy(ids, mask)[:, -1].masked_fill(~allowed[:, t], -torch.inf)
            new = torch.multinomial(logits.softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        b = Batch(prompt_ids=ids[:, :4], prompt_mask=mask[:, :4], response_ids=ids[:, 4:], response_mask=mask[:, 4:],
                  loss_mask=mask[:, 4:], allowed=allowed, uid=objects([i // 4 for i in range(16)]))
        rewards = ((b.response_ids > 5) & b.response_mask).float().sum(1)
        advantage = rewards - groups(b, "uid").mean(rewards)
        return (Batch(b, rewards=rewards, old_logp=logps(b)[0] * b.loss_mask, advantages=advantage[:, None] * b.loss_mask),)
    def update(b):
        logp, every = logps(b)
        entropy = -(every.exp() * every).sum(-1)[b.loss_mask].mean()  # 0 takes the place of -inf: exp(0) * 0 adds nothing
        ratio, advantage = (logp - b.old_logp)[b.loss_mask].exp(), b.advantages[b.loss_mask]
        loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean() - 0.01 * entropy
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
