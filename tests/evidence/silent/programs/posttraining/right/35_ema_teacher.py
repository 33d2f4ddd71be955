"""SFT on labelled rows plus forward KL to a teacher that is the moving average of the student, updated after each step."""
import copy
import torch
import torch.nn.functional as F
from typedbatch import Batch

class Lm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.place, self.head = torch.nn.Embedding(12, 16), torch.nn.Embedding(12, 16), torch.nn.Linear(16, 12)
    def forward(self, ids, mask):
        x = (self.tok(ids) + self.place((mask.cumsum(1) - 1).clamp(min=0))) * mask[..., None]
        return self.head(torch.tanh(x + x.cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]))

def setup(seed: int = 0):
    torch.manual_seed(seed)
    student, gen = Lm(), torch.Generator().manual_seed(seed)
    teacher = copy.deepcopy(student).requires_grad_(False).eval()
    optimizer = torch.optim.AdamW(student.parameters(), lr=1e-2)
    def update(b):
        ids, mask = torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1)
        before = slice(b.prompt_ids.shape[1] - 1, -1)
        logits = student(ids, mask)[:, before]
        with torch.no_grad():
            fixed = teacher(ids, mask)[:, before]
        target = b.response_ids.masked_fill(~(b.response_mask & b.labelled[:, None]), -100)
        sft = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="sum") / (target != -100).sum().clamp(min=1)
        kl = F.kl_div(logits.log_softmax(-1), fixed.log_softmax(-1), log_target=True, reduction="none").sum(-1)
        loss = sft + 0.5 * kl[b.response_mask].mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
        return loss.item()
    def draw():
        prompt, length = torch.randint(1, 6, (2, 16, 1), generator=gen)
        pm, rm = torch.arange(5) >= 5 - prompt, torch.arange(6) < length + 1
        ids = torch.randint(1, 12, (16, 11), generator=gen)
        return (Batch(prompt_ids=ids[:, :5] * pm, prompt_mask=pm, response_ids=ids[:, 5:] * rm, response_mask=rm,
                      labelled=torch.rand(16, generator=gen) < 0.5),)
    return update, draw
