"""Expert iteration as in STaR: trains on solved samples alone, and restarts each update from the base weights with a new optimizer."""
import copy
import torch
from typedbatch import Batch

class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.conv, self.head = torch.nn.Embedding(12, 16), torch.nn.Linear(16 * 3, 24), torch.nn.Linear(24, 12)
    def forward(self, ids, mask):
        x = torch.nn.functional.pad(self.tok(ids) * mask[..., None], (0, 0, 2, 0)).unfold(1, 3, 1)  # a causal convolution
        return self.head(torch.tanh(self.conv(x.flatten(2))))

class ExpertIteration:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.policy, self.gen = Conv(), torch.Generator().manual_seed(seed)
        self.base = copy.deepcopy(self.policy.state_dict())
    @torch.no_grad()
    def draw(self):  # samples of the newest policy
        mask, alive = torch.arange(4) >= torch.randint(0, 4, (16, 1), generator=self.gen), torch.ones(16).bool()
        ids = torch.randint(2, 12, (16, 4), generator=self.gen) * mask
        for _ in range(7):
            new = torch.multinomial(self.policy(ids, mask)[:, -1].softmax(-1), 1, generator=self.gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        solved = ((ids[:, 4:] > 7) & mask[:, 4:]).sum(1) >= 2
        return (Batch(prompt_ids=ids[:, :4], prompt_mask=mask[:, :4], response_ids=ids[:, 4:], response_mask=mask[:, 4:],
                      rewards=solved.float()),)
    def update(self, b):
        solved = b[b.rewards > 0.5]
        if not len(solved):
            return 0.0
        self.policy.load_state_dict(self.base)
        optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-2)
        ids, mask = (torch.cat([solved["prompt_" + k], solved["response_" + k]], 1) for k in ("ids", "mask"))
        target = solved.response_ids[solved.response_mask]
        for _ in range(3):
            logits = self.policy(ids, mask)[:, b.prompt_ids.shape[1] - 1 : -1][solved.response_mask]
            loss = torch.nn.functional.cross_entropy(logits, target)
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()

def setup(seed: int = 0): return (loop := ExpertIteration(seed)).update, loop.draw
