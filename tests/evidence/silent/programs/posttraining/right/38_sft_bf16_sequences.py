"""SFT on responses: a mean per sequence, then over sequences, in autocast bfloat16 with gradients of micro-batches added."""
import torch
from typedbatch import Batch

class Lm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.place = torch.nn.Embedding(12, 16), torch.nn.Embedding(12, 16)
        self.mix, self.head = torch.nn.Linear(32, 32), torch.nn.Linear(32, 12)
    def forward(self, ids, mask):
        x = (self.tok(ids) + self.place((mask.cumsum(1) - 1).clamp(min=0))) * mask[..., None]
        mean = x.cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]
        return self.head(torch.tanh(self.mix(torch.cat([x, mean], -1))))

def setup(seed: int = 0):
    torch.manual_seed(seed)
    model, gen = Lm(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)  # weights stay in float32
    def update(b, size=3):
        optimizer.zero_grad()
        total = torch.zeros(())
        for part in (b[start : start + size] for start in range(0, len(b), size)):  # 10 rows: the last part has one
            ids = torch.cat([part.prompt_ids, part.response_ids], 1)
            mask = torch.cat([part.prompt_mask, part.response_mask], 1)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(ids, mask)
            logp = logits.float()[:, part.prompt_ids.shape[1] - 1 : -1].log_softmax(-1)
            nll = -logp.gather(-1, part.response_ids[..., None]).squeeze(-1)
            means = torch.where(part.response_mask, nll, 0.0).sum(1) / part.response_mask.sum(1)
            loss = means.sum() / len(b)
            loss.backward()
            total += loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return total.item()
    def draw():
        prompt, length = torch.randint(1, 6, (2, 10, 1), generator=gen)
        pm, rm = torch.arange(5) >= 5 - prompt, torch.arange(7) < length + 2
        ids = torch.randint(1, 12, (10, 12), generator=gen)
        return (Batch(prompt_ids=ids[:, :5] * pm, prompt_mask=pm, response_ids=ids[:, 5:] * rm, response_mask=rm),)
    return update, draw
