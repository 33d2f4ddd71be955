"""RLOO: the k1 KL is part of the reward of a sequence, the baseline is the mean of the other samples, REINFORCE on sums."""
import copy
import torch
from typedbatch import Batch, objects

class Lm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.mix, self.head = torch.nn.Embedding(12, 16), torch.nn.Linear(32, 16), torch.nn.Linear(16, 12)
    def forward(self, ids, mask):
        x = self.tok(ids) * mask[..., None]
        mean = x.cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]
        return self.head(torch.tanh(self.mix(torch.cat([x, mean], -1))))
    def logp(self, b):  # of whole responses
        logits = self(torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1))
        logits = logits[:, b.prompt_ids.shape[1] - 1 : -1]
        logp = torch.distributions.Categorical(logits=logits).log_prob(b.response_ids)
        return torch.where(b.response_mask, logp, 0.0).sum(1)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, gen = Lm(), torch.Generator().manual_seed(seed)
    reference = copy.deepcopy(policy).requires_grad_(False)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    @torch.no_grad()
    def draw(prompts=4, samples=4, width=4):
        mask = (torch.arange(width) >= torch.randint(0, width, (prompts, 1), generator=gen)).repeat(samples, 1)
        ids = torch.randint(2, 12, (prompts, width), generator=gen).repeat(samples, 1) * mask
        alive = torch.ones(len(ids)).bool()
        for _ in range(6):
            new = torch.multinomial(policy(ids, mask)[:, -1].softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        b = Batch(prompt_ids=ids[:, :width], prompt_mask=mask[:, :width], uid=objects(list(range(prompts)) * samples),
                  response_ids=ids[:, width:], response_mask=mask[:, width:])  # samples of a prompt are not neighbours
        b.rewards = ((b.response_ids % 2 == 0) & b.response_mask).float().sum(1)
        b.old_logp, b.ref_logp = policy.logp(b), reference.logp(b)  # of whole responses
        return (b,)
    def update(b, beta=0.05):
        rewards = b.rewards - beta * (b.old_logp - b.ref_logp)
        peers = torch.tensor(b.uid[:, None] == b.uid[None]).float()
        baseline = (peers @ rewards - rewards) / (peers.sum(1) - 1)
        loss = -((rewards - baseline) * policy.logp(b)).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
