"""PPO with a separate critic and two optimizers; rewards are per token, with the KL penalty in them since the draw."""
import copy
import torch
from typedbatch import Batch
class Net(torch.nn.Module):
    def __init__(self, out):
        super().__init__()
        self.tok, self.mix, self.head = torch.nn.Embedding(12, 16), torch.nn.Linear(32, 16), torch.nn.Linear(16, out)
    def forward(self, ids, mask):
        x = self.tok(ids) * mask[..., None]
        return self.head(torch.tanh(self.mix(torch.cat([x, x.cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]], -1))))
    def before(self, b):  # the outputs in the states in which the tokens of the response are chosen
        out = self(torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1))
        return out[:, b.prompt_ids.shape[1] - 1 : -1]
    def logp(self, b): return self.before(b).log_softmax(-1).gather(-1, b.response_ids[..., None])[..., 0]
def setup(seed: int = 0):
    torch.manual_seed(seed)
    actor, critic, gen = Net(12), Net(1), torch.Generator().manual_seed(seed)
    reference = copy.deepcopy(actor).requires_grad_(False)
    slow, fast = torch.optim.Adam(actor.parameters(), lr=2e-3), torch.optim.Adam(critic.parameters(), lr=1e-2)
    @torch.no_grad()
    def draw():
        mask, alive = torch.arange(4) >= torch.randint(0, 4, (12, 1), generator=gen), torch.ones(12).bool()
        ids = torch.randint(2, 12, (12, 4), generator=gen) * mask
        for _ in range(7):
            new = torch.multinomial(actor(ids, mask)[:, -1].softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        b = Batch(prompt_ids=ids[:, :4], prompt_mask=mask[:, :4], response_ids=ids[:, 4:], response_mask=mask[:, 4:])
        old, ref = actor.logp(b), reference.logp(b)
        return (Batch(b, old_logp=old, rewards=((ids[:, 4:] % 3 == 0) * 0.5 - 0.1 * (old - ref)) * mask[:, 4:]),)
    def update(b, gamma=0.99, lam=0.95):
        mask, raw = b.response_mask, torch.zeros(b.response_mask.shape[0], b.response_mask.shape[1] + 1)
        values = torch.nn.functional.pad(torch.where(mask, critic.before(b)[..., 0].detach(), 0.0), (0, 1))
        delta = torch.where(mask, b.rewards + gamma * values[:, 1:] - values[:, :-1], 0.0)
        for t in reversed(range(mask.shape[1])):
            raw[:, t] = delta[:, t] + gamma * lam * raw[:, t + 1]  # is 0 behind the end of a response
        raw, target = raw[:, :-1][mask], (raw + values)[:, :-1][mask]
        advantage = (raw - raw.mean()) / (raw.std() + 1e-8)
        for _ in range(3):
            value_loss = (critic.before(b)[..., 0][mask] - target).square().mean()
            ratio = (actor.logp(b) - b.old_logp)[mask].exp()
            loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
            slow.zero_grad(); fast.zero_grad(); loss.backward(); value_loss.backward(); slow.step(); fast.step()
        return loss.item() + value_loss.item()
    return update, draw
