"""Distillation by reverse KL over the whole vocabulary on the student's own samples; the teacher runs in the update."""
import torch
from typedbatch import Batch

class Gru(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
        self.tok, self.cell, self.head = torch.nn.Embedding(12, size), torch.nn.GRUCell(size, size), torch.nn.Linear(size, 12)
    def forward(self, ids, mask):
        h, out = torch.zeros(len(ids), self.size), []
        for t in range(ids.shape[1]):
            h = torch.where(mask[:, t, None], self.cell(self.tok(ids[:, t]), h), h)
            out.append(self.head(h))
        return torch.stack(out, 1)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    models, gen = {"student": Gru(12), "teacher": Gru(24).eval()}, torch.Generator().manual_seed(seed)
    with torch.no_grad():
        models["teacher"].head.weight *= 3  # a teacher that is sure
    optimizer = torch.optim.Adam(models["student"].parameters(), lr=1e-2)
    @torch.no_grad()
    def draw():
        mask, alive = torch.arange(5) >= torch.randint(0, 5, (10, 1), generator=gen), torch.ones(10).bool()
        ids = torch.randint(2, 12, (10, 5), generator=gen) * mask
        for _ in range(7):
            new = torch.multinomial(models["student"](ids, mask)[:, -1].softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        return (Batch(prompt_ids=ids[:, :5], prompt_mask=mask[:, :5], response_ids=ids[:, 5:], response_mask=mask[:, 5:]),)
    def update(b):
        ids, mask = torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1)
        before = slice(b.prompt_ids.shape[1] - 1, -1)
        logq = models["student"](ids, mask)[:, before].log_softmax(-1)
        with torch.inference_mode():
            logp = models["teacher"](ids, mask)[:, before].log_softmax(-1)
        divergence = torch.nn.functional.kl_div(logp.clone(), logq, log_target=True, reduction="none").sum(-1)  # KL(q, p)
        loss = torch.where(b.response_mask, divergence, 0.0).sum() / b.response_mask.sum()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
