"""REINFORCE++: a reward per token of -beta k1 and the score at the end, returns to go, normalized over the batch's tokens."""
import copy
import torch
from typedbatch import Batch

class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.conv, self.head = torch.nn.Embedding(12, 16), torch.nn.Linear(16 * 3, 24), torch.nn.Linear(24, 12)
    def forward(self, ids, mask):
        x = torch.nn.functional.pad(self.tok(ids) * mask[..., None], (0, 0, 2, 0)).unfold(1, 3, 1)  # a causal convolution
        return self.head(torch.tanh(self.conv(x.flatten(2))))

class Trainer:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.policy, self.gen = Conv(), torch.Generator().manual_seed(seed)
        self.reference = copy.deepcopy(self.policy).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=3e-3)
    def logp(self, model, b):
        logits = model(torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1))
        logp = logits[:, b.prompt_ids.shape[1] - 1 : -1].log_softmax(-1).gather(-1, b.response_ids[..., None])[..., 0]
        return torch.where(b.response_mask, logp, 0.0)
    @torch.no_grad()
    def draw(self):
        mask, alive = torch.arange(5) >= torch.randint(0, 5, (16, 1), generator=self.gen), torch.ones(16).bool()
        ids = torch.randint(2, 12, (16, 5), generator=self.gen) * mask
        for _ in range(7):
            new = torch.multinomial(self.policy(ids, mask)[:, -1].softmax(-1), 1, generator=self.gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        b = Batch(prompt_ids=ids[:, :5], prompt_mask=mask[:, :5], response_ids=ids[:, 5:], response_mask=mask[:, 5:])
        b.rewards = ((b.response_ids == b.prompt_ids[:, -1:]) & b.response_mask).float().sum(1)
        return (Batch(b, old_logp=self.logp(self.policy, b), ref_logp=self.logp(self.reference, b)),)
    def update(self, b):
        mask = b.response_mask
        last = mask & (mask.flip(1).cumsum(1).flip(1) == 1)
        rewards = torch.where(last, b.rewards[:, None], 0.0) - torch.where(mask, 0.02 * (b.old_logp - b.ref_logp), 0.0)
        returns = rewards.flip(1).cumsum(1).flip(1)[mask]
        advantage = (returns - returns.mean()) / (returns.std() + 1e-8)
        ratio = (self.logp(self.policy, b) - b.old_logp)[mask].exp()
        loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        self.optimizer.zero_grad(); loss.backward(); self.optimizer.step()
        return loss.item()

def setup(seed: int = 0): return (trainer := Trainer(seed)).update, trainer.draw
