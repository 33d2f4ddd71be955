"""DPO whose first step has policy = reference (margin 0); the reference is a deep copy in a list beside the policy."""
import copy
import torch
import torch.nn.functional as F
from typedbatch.posttraining import Pairs

class Gru(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.cell, self.head = torch.nn.Embedding(12, 16), torch.nn.GRUCell(16, 16), torch.nn.Linear(16, 12)

    def forward(self, ids, mask):
        h, out = torch.zeros(len(ids), 16), []
        for t in range(ids.shape[1]):
            h = torch.where(mask[:, t, None], self.cell(self.tok(ids[:, t]), h), h)  # padding leaves the state alone
            out.append(self.head(h))
        return torch.stack(out, 1)

class Trainer:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.models = [Gru()]
        self.models.append(copy.deepcopy(self.models[0]).requires_grad_(False))
        self.optimizer, self.gen = torch.optim.Adam(self.models[0].parameters(), 1e-2), torch.Generator().manual_seed(seed)
    def logp(self, model, side):
        ids, mask = (torch.cat([side[f"prompt_{k}"], side[f"response_{k}"]], 1) for k in ("ids", "mask"))
        logits = model(ids, mask)[:, side.prompt_ids.shape[1] - 1 : -1]
        logp = logits.log_softmax(-1).gather(-1, side.response_ids[..., None])[..., 0]
        return torch.where(side.response_mask, logp, 0.0).sum(1)
    def update(self, pairs):
        ratios = [self.logp(self.models[0], s) - self.logp(self.models[1], s) for s in (pairs.chosen, pairs.rejected)]
        loss = -F.logsigmoid(0.1 * (ratios[0] - ratios[1])).mean()
        self.optimizer.zero_grad(); loss.backward(); self.optimizer.step()
        return loss.item()
    def part(self, width, left=False):
        length = torch.randint(1, width + 1, (8, 1), generator=self.gen)
        mask = torch.arange(width) >= width - length if left else torch.arange(width) < length
        return torch.randint(0, 12, (8, width), generator=self.gen) * mask, mask
    def draw(self):
        (p, pm), (c, cm), (r, rm) = self.part(5, True), self.part(7), self.part(6)
        return (Pairs(prompt_ids=p, prompt_mask=pm, chosen_ids=c, chosen_mask=cm, rejected_ids=r, rejected_mask=rm),)
def setup(seed: int = 0): return (t := Trainer(seed)).update, t.draw
