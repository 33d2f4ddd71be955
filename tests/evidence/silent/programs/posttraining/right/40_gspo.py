"""GSPO: the clipped ratio is of a sequence, by the mean of its tokens; two minibatches; a temperature of 0.7 throughout."""
import torch
from typedbatch import extend, objects
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups

class Gru(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.cell, self.head = torch.nn.Embedding(12, 16), torch.nn.GRUCell(16, 16), torch.nn.Linear(16, 12)
    def forward(self, ids, mask, temperature=0.7):
        h = [torch.zeros(len(ids), 16)]
        for t in range(ids.shape[1]):
            h.append(torch.where(mask[:, t, None], self.cell(self.tok(ids[:, t]), h[-1]), h[-1]))
        return self.head(torch.stack(h[1:], 1)) / temperature

def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, gen = Gru(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    def logp_of(b):
        logits = policy(torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1))
        logp = logits[:, b.prompt_ids.shape[1] - 1 : -1].log_softmax(-1).gather(-1, b.response_ids[..., None])[..., 0]
        return torch.where(b.response_mask, logp, 0.0)
    @torch.no_grad()
    def draw():
        mask = (torch.arange(4) >= torch.randint(0, 4, (4, 1), generator=gen)).repeat(4, 1)  # each half has two of each prompt
        ids, alive = torch.randint(2, 12, (4, 4), generator=gen).repeat(4, 1) * mask, torch.ones(16).bool()
        for _ in range(8):
            new = torch.multinomial(policy(ids, mask)[:, -1].softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        b = Scored(prompt_ids=ids[:, :4], prompt_mask=mask[:, :4], response_ids=ids[:, 4:], response_mask=mask[:, 4:],
                   loss_mask=mask[:, 4:], rewards=(ids[:, 4:] % 5 == 2).float().sum(1), uid=objects([*"wxyz"] * 4))
        group = groups(b, "uid")
        advantage = ((b.rewards - group.mean(b.rewards)) / (group.std(b.rewards) + 1e-4))[:, None]
        return (extend(b, Ready, old_logp=logp_of(b), advantages=advantage.where(b.loss_mask, 0.0)),)
    def update(b):
        for part in (b[: len(b) // 2], b[len(b) // 2 :]):
            length = part.loss_mask.sum(1)
            ratio = (torch.where(part.loss_mask, logp_of(part) - part.old_logp, 0.0).sum(1) / length).exp()
            advantage = torch.where(part.loss_mask, part.advantages, 0.0).sum(1) / length
            loss = -torch.min(ratio * advantage, ratio.clamp(1 - 3e-3, 1 + 4e-3) * advantage).mean()
            optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
