"""Only the last turn of a conversation counts, only rows with a positive advantage are kept, and advantages are clipped."""
import torch
from typedbatch import objects
from typedbatch.posttraining import Scored
from typedbatch.rows import groups

class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.conv, self.head = torch.nn.Embedding(12, 16), torch.nn.Linear(16 * 3, 24), torch.nn.Linear(24, 12)
    def forward(self, ids, mask):
        x = torch.nn.functional.pad(self.tok(ids) * mask[..., None], (0, 0, 2, 0)).unfold(1, 3, 1)  # a causal convolution
        return self.head(torch.tanh(self.conv(x.flatten(2))))

def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, gen = Conv(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.2, momentum=0.5)
    @torch.no_grad()
    def draw():  # the response holds 1 to 4 tokens of earlier turns, the same in a group, and then the last turn
        mask = (torch.arange(4) >= torch.randint(0, 4, (4, 1), generator=gen)).repeat_interleave(4, 0)
        ids = torch.randint(2, 12, (4, 4), generator=gen).repeat_interleave(4, 0) * mask
        earlier = torch.randint(1, 5, (4,), generator=gen).repeat_interleave(4)
        history, alive = torch.randint(2, 12, (4, 4), generator=gen).repeat_interleave(4, 0), torch.ones(16).bool()
        for t in range(8):
            new = torch.multinomial(policy(ids, mask)[:, -1].softmax(-1), 1, generator=gen)[:, 0]
            new = torch.where(t < earlier, history[:, min(t, 3)], new) * alive
            ids, mask = torch.cat([ids, new[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
            alive = alive & (new != 1)
        there, loss_mask = mask[:, 4:], mask[:, 4:] & (torch.arange(8) >= earlier[:, None])
        rewards = ((ids[:, 4:] > 8) & loss_mask).sum(1) / loss_mask.sum(1)
        return (Scored(prompt_ids=ids[:, :4], prompt_mask=mask[:, :4], response_ids=ids[:, 4:], response_mask=there,
                       loss_mask=loss_mask, rewards=rewards, uid=objects([i // 4 for i in range(16)])),)
    def update(b):
        advantage = (b.rewards - groups(b, "uid").mean(b.rewards)).clamp(-0.4, 0.4)
        keep = advantage > 1e-6
        if not keep.any():
            return 0.0
        b, advantage = b[keep], advantage[keep]
        logits = policy(torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1))
        logp = logits[:, b.prompt_ids.shape[1] - 1 : -1].log_softmax(-1).gather(-1, b.response_ids[..., None])[..., 0]
        loss = -(logp * advantage[:, None])[b.loss_mask].mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
