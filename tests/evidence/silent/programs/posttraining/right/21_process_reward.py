"""A process reward model: one binary score at the last token of each step, the mean over all steps of the batch."""
import torch
import torch.nn.functional as F
from typedbatch import Batch

class Process(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.cell, self.score = torch.nn.Embedding(12, 16), torch.nn.GRUCell(16, 16), torch.nn.Linear(16, 1)

    def forward(self, ids, mask):
        state, scores = torch.zeros(len(ids), 16), []
        for t in range(ids.shape[1]):
            state = torch.where(mask[:, t, None], self.cell(self.tok(ids[:, t]), state), state)
            scores.append(self.score(state)[:, 0])
        return torch.stack(scores, 1)  # [:, t] has read the token t, which may be the end of a step

def setup(seed: int = 0):
    torch.manual_seed(seed)
    model, gen, end = Process(), torch.Generator().manual_seed(seed), 2  # token 2 ends a step
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def update(b):
        ids, mask = torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1)
        scores = model(ids, mask)[:, b.prompt_ids.shape[1] :]
        loss = F.binary_cross_entropy_with_logits(scores[b.step_mask], b.step_labels[b.step_mask])
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    def draw(n=12):
        prompt, length = torch.randint(1, 5, (n, 1), generator=gen), torch.randint(2, 9, (n, 1), generator=gen)
        prompt_mask, mask = torch.arange(4) >= 4 - prompt, torch.arange(8) < length
        prompt_ids, ids = torch.randint(3, 12, (n, 4), generator=gen), torch.randint(3, 12, (n, 8), generator=gen)
        last = torch.arange(8) == length - 1
        ids = ids.masked_fill((torch.rand(n, 8, generator=gen) < 0.25) | last, end)  # each response ends with a step
        step_mask = (ids == end) & mask
        right = torch.rand(n, 8, generator=gen) < 0.8
        labels = (right | ~step_mask).long().cumprod(1).float() * step_mask  # after a first wrong step all are wrong
        return (Batch(prompt_ids=prompt_ids * prompt_mask, prompt_mask=prompt_mask, response_ids=ids * mask,
                      response_mask=mask, step_mask=step_mask, step_labels=labels),)
    return update, draw
