"""A reward model (Bradley-Terry) with a margin for each pair and centered scores; the score is of the last real token."""
import torch
import torch.nn.functional as F
from typedbatch import Batch

class Reward(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.place = torch.nn.Embedding(12, 16), torch.nn.Embedding(12, 16)
        self.q, self.kv, self.score = torch.nn.Linear(16, 16), torch.nn.Linear(16, 32), torch.nn.Linear(16, 1, bias=False)

    def forward(self, ids, mask):
        x = self.tok(ids) + self.place((mask.cumsum(1) - 1).clamp(min=0))
        number = torch.arange(ids.shape[1])
        last = (number * mask).amax(1)  # prompts are padded on the left, responses on the right
        final = x[torch.arange(len(ids)), last]  # the last token attends to every token of its row, and to no padding
        keys, values = self.kv(x).chunk(2, -1)
        weights = (self.q(final)[:, None] @ keys.transpose(1, 2) / 4).masked_fill(~mask[:, None], -torch.inf).softmax(-1)
        return self.score(torch.tanh(final + (weights @ values)[:, 0])).squeeze(-1)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    model, gen = Reward(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)

    def update(b):
        chosen, rejected = (
            model(torch.cat([b.prompt_ids, b[s + "_ids"]], 1), torch.cat([b.prompt_mask, b[s + "_mask"]], 1))
            for s in ("chosen", "rejected"))
        loss = -F.logsigmoid(chosen - rejected - b.margin).mean() + 0.01 * (chosen + rejected).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    def draw():
        fields = {"margin": torch.rand(16, generator=gen) * (torch.rand(16, generator=gen) < 0.5)}
        for name, width in (("prompt", 5), ("chosen", 5), ("rejected", 7)):
            length, at = torch.randint(1, width + 1, (16, 1), generator=gen), torch.arange(width)
            mask = at >= width - length if name == "prompt" else at < length
            fields |= {name + "_mask": mask, name + "_ids": torch.randint(1, 12, (16, width), generator=gen) * mask}
        return (Batch(**fields),)
    return update, draw
