"""KTO: unpaired rows with a label; the KL term is of mismatched responses (fields kl_*), detached and not below 0."""
import copy
import torch
from typedbatch import Batch

class Lm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.mix, self.head = torch.nn.Embedding(12, 16), torch.nn.Linear(32, 16), torch.nn.Linear(16, 12)

    def forward(self, ids, mask):  # the mean of all tokens up to here, beside the token itself
        x = self.tok(ids) * mask[..., None]
        mean = x.cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]
        return self.head(torch.tanh(self.mix(torch.cat([x, mean], -1))))

def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, gen = Lm(), torch.Generator().manual_seed(seed)
    reference = copy.deepcopy(policy).requires_grad_(False).eval()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    def logp(model, b, ids, mask):
        logits = model(torch.cat([b.prompt_ids, ids], 1), torch.cat([b.prompt_mask, mask], 1))
        logp = logits[:, b.prompt_ids.shape[1] - 1 : -1].log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        return (logp * mask).sum(1)
    def update(b, beta=0.1, good=1.0, bad=1.33):
        with torch.no_grad():
            kl = (logp(policy, b, b.kl_ids, b.kl_mask) - logp(reference, b, b.kl_ids, b.kl_mask)).mean().clamp(min=0)
            fixed = logp(reference, b, b.response_ids, b.response_mask)
        reward = logp(policy, b, b.response_ids, b.response_mask) - fixed
        value = torch.where(b.desirable, torch.sigmoid(beta * (reward - kl)), torch.sigmoid(beta * (kl - reward)))
        loss = (torch.where(b.desirable, good, bad) * (1 - value)).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    def draw():
        prompt, length = torch.randint(1, 6, (2, 14, 1), generator=gen)
        prompt_mask, mask = torch.arange(5) >= 5 - prompt, torch.arange(6) < length + 1
        prompt_ids, ids = torch.randint(1, 12, (14, 5), generator=gen), torch.randint(1, 12, (14, 6), generator=gen)
        return (Batch(prompt_ids=prompt_ids * prompt_mask, prompt_mask=prompt_mask, response_ids=ids * mask,
                      response_mask=mask, desirable=torch.rand(14, generator=gen) < 0.6,
                      kl_ids=(ids * mask).roll(1, 0), kl_mask=mask.roll(1, 0)),)
    return update, draw
