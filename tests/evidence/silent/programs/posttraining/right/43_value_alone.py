"""A value head is trained alone before PPO: policy and trunk are frozen, targets are Monte Carlo returns of each token."""
import torch
from typedbatch import Batch

class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.cell = torch.nn.Embedding(12, 16), torch.nn.GRUCell(16, 16)
        self.head, self.value = torch.nn.Linear(16, 12), torch.nn.Linear(16, 1)
    def states(self, ids, mask):
        h, out = torch.zeros(len(ids), 16), []
        for t in range(ids.shape[1]):
            h = torch.where(mask[:, t, None], self.cell(self.tok(ids[:, t]), h), h)
            out.append(h)
        return torch.stack(out, 1)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    model, gen = Policy().eval(), torch.Generator().manual_seed(seed)
    model.requires_grad_(False)
    model.value.requires_grad_(True)
    optimizer = torch.optim.Adam(model.value.parameters(), lr=1e-2)
    @torch.no_grad()
    def draw():
        mask, alive = torch.arange(5) >= torch.randint(0, 5, (12, 1), generator=gen), torch.ones(12).bool()
        ids = torch.randint(2, 12, (12, 5), generator=gen) * mask
        for _ in range(7):
            new = torch.multinomial(model.head(model.states(ids, mask)[:, -1]).softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        rewards = ((ids[:, 5:] > 6) & mask[:, 5:]).sum(1).float()  # one reward, at the end
        left = mask[:, 5:].flip(1).cumsum(1).flip(1) - 1  # tokens that come after this one
        return (Batch(prompt_ids=ids[:, :5], prompt_mask=mask[:, :5], response_ids=ids[:, 5:], response_mask=mask[:, 5:],
                      rewards=rewards, returns=(rewards[:, None] * 0.99**left).where(mask[:, 5:], 0.0)),)
    def update(b):
        ids, mask = torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1)
        with torch.no_grad():
            states = model.states(ids, mask)[:, b.prompt_ids.shape[1] - 1 : -1]  # before each token of the response
        error = (model.value(states).squeeze(-1) - b.returns).square()
        loss = (error * b.response_mask).sum() / b.response_mask.sum()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
