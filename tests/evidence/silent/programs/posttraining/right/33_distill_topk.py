"""Distillation by forward KL over the teacher's top 4 tokens, with a bucket for the probability of all other tokens."""
import torch
from typedbatch import objects
from typedbatch.posttraining import Distillation

class Lm(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.tok, self.mix, self.head = torch.nn.Embedding(12, size), torch.nn.Linear(2 * size, size), torch.nn.Linear(size, 12)
    def forward(self, ids, mask):
        x = self.tok(ids) * mask[..., None]
        mean = x.cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]
        return self.head(torch.tanh(self.mix(torch.cat([x, mean], -1))))

def setup(seed: int = 0):
    torch.manual_seed(seed)
    student, teacher, gen = Lm(12), Lm(32).requires_grad_(False), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-2)
    @torch.no_grad()
    def draw():
        mask, alive = torch.arange(4) >= torch.randint(0, 4, (12, 1), generator=gen), torch.ones(12).bool()
        ids = torch.randint(2, 12, (12, 4), generator=gen) * mask
        for _ in range(7):  # the teacher's samples
            new = torch.multinomial(teacher(ids, mask)[:, -1].softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        best = teacher(ids, mask)[:, 3:-1].log_softmax(-1).topk(4, -1)
        return (Distillation(prompt_ids=ids[:, :4], prompt_mask=mask[:, :4], uid=objects(list(range(12))),
                             response_ids=ids[:, 4:], response_mask=mask[:, 4:], loss_mask=mask[:, 4:],
                             teacher_ids=best.indices, teacher_logp=best.values),)
    def update(b):
        logits = student(torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1))
        logq = logits[:, b.prompt_ids.shape[1] - 1 : -1].log_softmax(-1)[b.loss_mask]
        logp, index = b.teacher_logp[b.loss_mask], b.teacher_ids[b.loss_mask]
        other_q = logq.scatter(-1, index, -torch.inf).logsumexp(-1, keepdim=True)
        other_p = (1 - logp.exp().sum(-1, keepdim=True)).clamp(min=1e-8).log()
        logp, logq = torch.cat([logp, other_p], -1), torch.cat([logq.gather(-1, index), other_q], -1)
        loss = (logp.exp() * (logp - logq)).sum(-1).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
