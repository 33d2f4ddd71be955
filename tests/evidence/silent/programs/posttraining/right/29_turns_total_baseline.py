"""Two turns with a tool's output between them, out of the loss; rewards per token, the others' mean total as baseline."""
import torch
from typedbatch import Batch, objects

class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.place = torch.nn.Embedding(12, 16), torch.nn.Embedding(12, 16)
        self.qkv, self.head = torch.nn.Linear(16, 48), torch.nn.Linear(16, 12)
    def forward(self, ids, mask):
        x = self.tok(ids) + self.place((mask.cumsum(1) - 1).clamp(min=0))
        q, k, v = self.qkv(x).chunk(3, -1)
        seen = (mask[:, None] & torch.ones(ids.shape[1], ids.shape[1]).tril().bool()) | torch.eye(ids.shape[1]).bool()
        return self.head(x + (q @ k.mT / 4).masked_fill(~seen, -torch.inf).softmax(-1) @ v)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, gen = Attention(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    def logp_of(b):
        logits = policy(torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1))
        return logits[:, b.prompt_ids.shape[1] - 1 : -1].log_softmax(-1).gather(-1, b.response_ids[..., None])[..., 0]
    @torch.no_grad()
    def draw():
        mask = (torch.arange(4) >= torch.randint(0, 4, (4, 1), generator=gen)).repeat_interleave(4, 0)
        ids, alive = torch.randint(2, 12, (4, 4), generator=gen).repeat_interleave(4, 0) * mask, torch.ones(16).bool()
        sampled = torch.tensor([True, True, True, False, False, True, True, True])  # a row that has drawn 1 has ended
        for ours in sampled:
            new = torch.multinomial(policy(ids, mask)[:, -1].softmax(-1), 1, generator=gen)[:, 0]
            new = (new if ours else torch.randint(2, 12, (16,), generator=gen)) * alive
            ids, mask = torch.cat([ids, new[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
            alive = alive & (new != 1)
        b = Batch(prompt_ids=ids[:, :4], prompt_mask=mask[:, :4], response_ids=ids[:, 4:], response_mask=mask[:, 4:],
                  loss_mask=mask[:, 4:] & sampled, uid=objects([f"p{i // 4}" for i in range(16)]))
        b.token_rewards = (b.response_ids % 4 == 0) * b.loss_mask * 1.0
        return (Batch(b, rewards=b.token_rewards.sum(1), old_logp=logp_of(b) * b.loss_mask),)
    def update(b):
        peers = torch.tensor(b.uid[:, None] == b.uid[None]).float()
        baseline = (peers @ b.rewards - b.rewards) / (peers.sum(1) - 1)  # does not depend on the row's own tokens
        to_go = torch.where(b.response_mask, b.token_rewards, 0.0).flip(1).cumsum(1).flip(1)
        advantage, ratio = (to_go - baseline[:, None])[b.loss_mask], (logp_of(b) - b.old_logp)[b.loss_mask].exp()
        loss = -(advantage * ratio).sum() / len(b)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
