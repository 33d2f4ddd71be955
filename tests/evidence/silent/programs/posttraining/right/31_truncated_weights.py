"""PPO's clipped loss with truncated importance weights: the sampler runs the same weights in bfloat16 (rollout_logp)."""
import copy
import torch
from typedbatch import Batch, extend, objects
from typedbatch.posttraining import Ready
from typedbatch.rows import groups
class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.conv, self.head = torch.nn.Embedding(12, 16), torch.nn.Linear(16 * 3, 24), torch.nn.Linear(24, 12)
    def forward(self, ids, mask):
        x = torch.nn.functional.pad(self.tok(ids) * mask[..., None], (0, 0, 2, 0)).unfold(1, 3, 1)  # a causal convolution
        return self.head(torch.tanh(self.conv(x.flatten(2)))).float()
def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, gen = Conv(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    def logp_of(model, ids, mask, width):
        logp = model(ids, mask)[:, width - 1 : -1].log_softmax(-1).gather(-1, ids[:, width:, None])[..., 0]
        return torch.where(mask[:, width:], logp, 0.0)
    @torch.no_grad()
    def draw():
        sampler = copy.deepcopy(policy).bfloat16()
        mask = (torch.arange(4) >= torch.randint(0, 4, (4, 1), generator=gen)).repeat_interleave(4, 0)
        ids, alive = torch.randint(2, 12, (4, 4), generator=gen).repeat_interleave(4, 0) * mask, torch.ones(16).bool()
        for _ in range(7):
            new = torch.multinomial(sampler(ids, mask)[:, -1].softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        b = Batch(prompt_ids=ids[:, :4], prompt_mask=mask[:, :4], response_ids=ids[:, 4:], response_mask=mask[:, 4:],
                  loss_mask=mask[:, 4:], uid=objects([i // 4 for i in range(16)]), truncated=alive)
        b.rewards, group = ((ids[:, 4:] == 7) & mask[:, 4:]).any(1).float(), groups(b, "uid")
        advantage = (b.rewards - group.mean(b.rewards)) / (group.std(b.rewards) + 1e-4)
        return (extend(b, Ready, old_logp=logp_of(policy, ids, mask, 4), rollout_logp=logp_of(sampler, ids, mask, 4),
                       advantages=advantage[:, None] * b.loss_mask),)
    def update(b):
        ids, mask = (torch.cat([b["prompt_" + k], b["response_" + k]], 1) for k in ("ids", "mask"))
        count = b.loss_mask & ~b.truncated[:, None]  # responses that were cut off teach nothing
        weights = (b.old_logp - b.rollout_logp)[count].exp().clamp(max=2.0)
        for _ in range(2):
            ratio = (logp_of(policy, ids, mask, b.prompt_ids.shape[1]) - b.old_logp)[count].exp()
            advantage = b.advantages[count]
            loss = -(weights * torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)).sum() / count.sum().clamp(min=1)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
