"""SFT (mean over tokens) of a mixture of experts: load-balancing and router z-loss over real tokens, z-loss of the logits."""
import torch
from typedbatch import Batch

class Moe(torch.nn.Module):
    def __init__(self, experts=3):
        super().__init__()
        self.tok, self.mix, self.head = torch.nn.Embedding(12, 16), torch.nn.Linear(32, 16), torch.nn.Linear(16, 12)
        self.router, self.up = torch.nn.Linear(16, experts, bias=False), torch.nn.Parameter(torch.randn(experts, 16, 16) / 4)
    def forward(self, ids, mask):
        x = self.tok(ids) * mask[..., None]
        h = self.mix(torch.cat([x, x.cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]], -1))
        routing = self.router(h)
        share, chosen = routing.softmax(-1).max(-1)  # top 1, times its probability, as in Switch; no token is dropped
        out = torch.einsum("btd,btde->bte", h, self.up[chosen])
        return self.head(h + share[..., None] * torch.relu(out)), routing, chosen

def setup(seed: int = 0):
    torch.manual_seed(seed)
    model, gen = Moe(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    def update(b):
        ids, mask = torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1)
        logits, routing, chosen = model(ids, mask)
        logits = logits[:, b.prompt_ids.shape[1] - 1 : -1][b.response_mask]
        log_z = logits.logsumexp(-1)
        nll = log_z - logits.gather(-1, b.response_ids[b.response_mask][:, None])[:, 0]
        routing, chosen = routing[mask], chosen[mask]  # of the tokens of prompts as well, but not of padding
        load = torch.nn.functional.one_hot(chosen, routing.shape[-1]).float().mean(0)
        balance = routing.shape[-1] * (load * routing.softmax(-1).mean(0)).sum()
        router_z = routing.logsumexp(-1).square().mean()
        loss = nll.mean() + 1e-3 * log_z.square().mean() + 1e-2 * balance + 1e-3 * router_z
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    def draw():
        prompt, length = torch.randint(1, 6, (12, 1), generator=gen), torch.randint(1, 8, (12, 1), generator=gen)
        pm, rm = torch.arange(5) >= 5 - prompt, torch.arange(7) < length
        ids = torch.randint(1, 12, (12, 12), generator=gen)
        return (Batch(prompt_ids=ids[:, :5] * pm, prompt_mask=pm, response_ids=ids[:, 5:] * rm, response_mask=rm),)
    return update, draw
