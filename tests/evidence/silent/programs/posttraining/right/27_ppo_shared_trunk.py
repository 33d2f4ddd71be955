"""PPO with a value head on the policy's trunk, GAE as a matrix, clipped values, entropy bonus, two epochs of minibatches."""
import torch
from typedbatch import Batch
class ActorCritic(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.cell, self.heads = torch.nn.Embedding(12, 16), torch.nn.GRUCell(16, 16), torch.nn.Linear(16, 13)
    def forward(self, ids, mask):  # logits of the next token, and the value of the state in which it is chosen
        h = [torch.zeros(len(ids), 16)]
        for token, there in zip(ids.T, mask.T):
            h.append(torch.where(there[:, None], self.cell(self.tok(token), h[-1]), h[-1]))
        return self.heads(torch.stack(h[1:], 1)).split([12, 1], -1)
def setup(seed: int = 0):
    torch.manual_seed(seed)
    model, gen = ActorCritic(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    def run(b):
        out = model(torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1))
        logits, values = (x[:, b.prompt_ids.shape[1] - 1 : -1] for x in out)
        return logits.log_softmax(-1).gather(-1, b.response_ids[..., None])[..., 0], values[..., 0], logits.log_softmax(-1)
    @torch.no_grad()
    def draw():
        mask, alive = torch.arange(4) >= torch.randint(0, 4, (16, 1), generator=gen), torch.ones(16).bool()
        ids = torch.randint(2, 12, (16, 4), generator=gen) * mask
        for _ in range(8):
            new = torch.multinomial(model(ids, mask)[0][:, -1].softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        b = Batch(prompt_ids=ids[:, :4], prompt_mask=mask[:, :4], response_ids=ids[:, 4:], response_mask=mask[:, 4:])
        return (Batch(b, rewards=((ids[:, 4:] > 7) & mask[:, 4:]).float().sum(1), old_logp=run(b)[0], values=run(b)[1]),)
    def update(b, lam=0.9):
        there, at, values = b.response_mask, torch.arange(b.values.shape[1]), torch.where(b.response_mask, b.values, 0.0)
        last = at == there.sum(1, keepdim=True) - 1  # the reward comes with the last token
        delta = torch.where(last, b.rewards[:, None], 0.0) + torch.nn.functional.pad(values[:, 1:], (0, 1)) - values
        raw = delta @ (lam ** (at[:, None] - at).clamp(min=0)).tril()  # [j, t] is lam^(j - t) for j >= t; gamma is 1
        advantages, returns = (raw - raw[there].mean()) / (raw[there].std() + 1e-8), raw + values
        for rows in (*torch.randperm(len(b), generator=gen).chunk(2), *torch.randperm(len(b), generator=gen).chunk(2)):
            mask, (logp, new, every) = there[rows], (x[there[rows]] for x in run(b[rows]))
            advantage, old, target = advantages[rows][mask], values[rows][mask], returns[rows][mask]
            ratio, clipped = (logp - b.old_logp[rows][mask]).exp(), old + (new - old).clamp(-0.2, 0.2)
            loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            value_loss = torch.max((new - target).square(), (clipped - target).square()).mean()
            loss = loss + 0.25 * value_loss + 0.01 * (every.exp() * every).sum(-1).mean()  # minus the entropy
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
