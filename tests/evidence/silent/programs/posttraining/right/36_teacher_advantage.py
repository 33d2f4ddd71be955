"""On-policy distillation: the advantage of each token is teacher_logp - old_logp, the negative reverse KL, not discounted."""
import torch
from typedbatch import Batch

class Lm(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.tok, self.mix, self.head = torch.nn.Embedding(12, size), torch.nn.Linear(2 * size, size), torch.nn.Linear(size, 12)
    def forward(self, ids, mask):
        x = self.tok(ids) * mask[..., None]
        mean = x.cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]
        return self.head(torch.tanh(self.mix(torch.cat([x, mean], -1))))

class Distiller:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.student, self.teacher = Lm(16), Lm(24).requires_grad_(False)
        self.optimizer, self.gen = torch.optim.Adam(self.student.parameters(), lr=1e-2), torch.Generator().manual_seed(seed)
    def logp(self, model, b):
        logits = model(torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1))
        logp = logits[:, b.prompt_ids.shape[1] - 1 : -1].log_softmax(-1).gather(-1, b.response_ids[..., None])[..., 0]
        return torch.where(b.response_mask, logp, 0.0)
    @torch.no_grad()
    def draw(self):
        mask, alive = torch.arange(5) >= torch.randint(0, 5, (14, 1), generator=self.gen), torch.ones(14).bool()
        ids = torch.randint(2, 12, (14, 5), generator=self.gen) * mask
        for _ in range(7):
            new = torch.multinomial(self.student(ids, mask)[:, -1].softmax(-1), 1, generator=self.gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        b = Batch(prompt_ids=ids[:, :5], prompt_mask=mask[:, :5], response_ids=ids[:, 5:], response_mask=mask[:, 5:])
        return (Batch(b, old_logp=self.logp(self.student, b), teacher_logp=self.logp(self.teacher, b)),)
    def update(self, b):
        ratio = (self.logp(self.student, b) - b.old_logp)[b.response_mask].exp()
        loss = -(ratio * (b.teacher_logp - b.old_logp)[b.response_mask]).mean()
        self.optimizer.zero_grad(); loss.backward(); self.optimizer.step()
        return loss.item()

def setup(seed: int = 0): return (distiller := Distiller(seed)).update, distiller.draw
