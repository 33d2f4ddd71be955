"""Best-of-n (RAFT): of the samples of each prompt only the one with the highest reward is learned, by maximum likelihood."""
import torch
from typedbatch import objects
from typedbatch.posttraining import Scored

class Lm(torch.nn.Module):
    def __init__(self, out=12):
        super().__init__()
        self.tok, self.mix, self.head = torch.nn.Embedding(12, 16), torch.nn.Linear(32, 16), torch.nn.Linear(16, out)
    def forward(self, ids, mask):
        x = self.tok(ids) * mask[..., None]
        mean = x.cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]
        return self.head(torch.tanh(self.mix(torch.cat([x, mean], -1))))

def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, judge, gen = Lm(), Lm(1).requires_grad_(False), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    @torch.no_grad()
    def draw(prompts=4, samples=4):
        mask = (torch.arange(5) >= torch.randint(0, 5, (prompts, 1), generator=gen)).repeat_interleave(samples, 0)
        ids = torch.randint(2, 12, (prompts, 5), generator=gen).repeat_interleave(samples, 0) * mask
        alive = torch.ones(len(ids)).bool()
        for _ in range(7):
            new = torch.multinomial(policy(ids, mask)[:, -1].softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        last = 4 + mask[:, 5:].sum(1)  # the reward model reads the last token of each row
        return (Scored(prompt_ids=ids[:, :5], prompt_mask=mask[:, :5], response_ids=ids[:, 5:], response_mask=mask[:, 5:],
                       loss_mask=mask[:, 5:], rewards=judge(ids, mask)[torch.arange(len(ids)), last, 0],
                       uid=objects([i // samples for i in range(len(ids))])),)
    def update(b):
        best = {}
        for row, (uid, reward) in enumerate(zip(b.uid, b.rewards.tolist())):
            if uid not in best or reward > b.rewards[best[uid]]:
                best[uid] = row
        b = b[list(best.values())]
        logits = policy(torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1))
        logits = logits[:, b.prompt_ids.shape[1] - 1 : -1]
        loss = torch.nn.functional.cross_entropy(logits[b.loss_mask], b.response_ids[b.loss_mask])
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
