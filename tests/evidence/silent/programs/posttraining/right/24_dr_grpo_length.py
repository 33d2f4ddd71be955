"""Dr. GRPO: no division by the std, a constant divisor; a soft penalty for overlong responses is taken in the update."""
import torch
from typedbatch import objects
from typedbatch.posttraining import Scored, aggregate, token_logp
from typedbatch.rows import groups

LONGEST, SOFT = 7, 3

class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.place = torch.nn.Embedding(12, 16), torch.nn.Embedding(12, 16)
        self.qkv, self.head = torch.nn.Linear(16, 48), torch.nn.Linear(16, 12)
    def forward(self, input_ids, attention_mask, position_ids=None, use_cache=False):
        size, there = input_ids.shape[1], attention_mask.bool()
        x = self.tok(input_ids) + self.place((there.cumsum(1) - 1).clamp(min=0))
        q, k, v = self.qkv(x).chunk(3, -1)
        seen = (there[:, None] & torch.ones(size, size).tril().bool()) | torch.eye(size).bool()
        return self.head(x + (q @ k.mT / 4).masked_fill(~seen, -torch.inf).softmax(-1) @ v)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, gen = Attention(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    @torch.no_grad()
    def draw():
        mask = (torch.arange(4) >= torch.randint(0, 4, (4, 1), generator=gen)).repeat_interleave(3, 0)
        ids, alive = torch.randint(2, 12, (4, 4), generator=gen).repeat_interleave(3, 0) * mask, torch.ones(12).bool()
        for _ in range(LONGEST):
            new = torch.multinomial(policy(ids, mask)[:, -1].softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        prompt, response, there = ids[:, :4], ids[:, 4:], mask[:, 4:]
        return (Scored(prompt_ids=prompt, prompt_mask=mask[:, :4], uid=objects(list("aaabbbcccddd")), loss_mask=there,
                       response_ids=response, response_mask=there, rewards=(response == 5).any(1).float()),)
    def update(b):
        over = b.response_mask.sum(1) - (LONGEST - SOFT)
        rewards = b.rewards - over.clamp(min=0) / SOFT
        advantage = rewards - groups(b, "uid").mean(rewards)
        logp = token_logp(policy, b, temperature=1.0)  # one step on policy: the gradient of the ratio is that of logp
        loss = aggregate(-logp * advantage[:, None], b.loss_mask, "dr_grpo", total=len(b) * LONGEST)
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
