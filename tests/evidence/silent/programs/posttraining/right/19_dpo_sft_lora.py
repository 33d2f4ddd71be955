"""DPO plus an SFT term with low-rank adapters: the base is frozen, and the reference is the same model with adapters off."""
import torch
import torch.nn.functional as F
from typedbatch import Batch

class Lora(torch.nn.Module):
    on = True
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = torch.nn.Parameter(torch.randn(2, base.in_features) / base.in_features**0.5)
        self.b = torch.nn.Parameter(torch.zeros(base.out_features, 2))
    def forward(self, x):
        return self.base(x) + 4.0 * (x @ self.a.T @ self.b.T) if self.on else self.base(x)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    tok, place = torch.nn.Embedding(12, 16).requires_grad_(False), torch.nn.Embedding(12, 16).requires_grad_(False)
    model = torch.nn.ModuleList([tok, place, Lora(torch.nn.Linear(16, 16)), Lora(torch.nn.Linear(16, 12))])
    gen = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-2)
    def logp(b, side, adapted):
        model[2].on = model[3].on = adapted
        ids, mask = (torch.cat([b["prompt_" + k], b[side + k]], 1) for k in ("ids", "mask"))
        x = (tok(ids) + place((mask.cumsum(1) - 1).clamp(min=0))) * mask[..., None]
        hidden = torch.tanh(model[2](x + x.cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]))
        logits = model[3](hidden)[:, b.prompt_ids.shape[1] - 1 : -1]
        logp = logits.log_softmax(-1).gather(-1, b[side + "ids"][..., None])[..., 0]
        return torch.where(b[side + "mask"], logp, 0.0).sum(1)
    def update(b, beta=0.3, weight=0.2):
        with torch.no_grad():
            fixed = logp(b, "chosen_", False) - logp(b, "rejected_", False)
        chosen, rejected = logp(b, "chosen_", True), logp(b, "rejected_", True)
        sft = -chosen.sum() / b.chosen_mask.sum()
        loss = F.softplus(-beta * (chosen - rejected - fixed)).mean() + weight * sft
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    def draw():
        ids, n = torch.randint(1, 12, (3, 10, 6), generator=gen), torch.randint(1, 7, (3, 10, 1), generator=gen)
        pm, cm, rm = torch.arange(6) >= 6 - n[0], torch.arange(6) < n[1], torch.arange(6) < n[2]
        return (Batch(prompt_ids=ids[0] * pm, prompt_mask=pm, chosen_ids=ids[1] * cm, chosen_mask=cm,
                      rejected_ids=ids[2] * rm, rejected_mask=rm),)
    return update, draw
