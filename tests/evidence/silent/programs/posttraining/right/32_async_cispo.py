"""Asynchronous CISPO: actors sample with weights that are up to two updates old; clipped detached ratio to rollout_logp."""
import copy
import torch
from typedbatch import objects
from typedbatch.posttraining import Scored
from typedbatch.rows import groups
class Lm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.place, self.head = torch.nn.Embedding(12, 16), torch.nn.Embedding(12, 16), torch.nn.Linear(16, 12)
    def forward(self, ids, mask):
        x = (self.tok(ids) + self.place((mask.cumsum(1) - 1).clamp(min=0))) * mask[..., None]
        return self.head(torch.tanh(x + x.cumsum(1) / mask.cumsum(1).clamp(min=1)[..., None]))
    def logp(self, ids, mask, width):  # of the columns from width on
        return self(ids, mask)[:, width - 1 : -1].log_softmax(-1).gather(-1, ids[:, width:, None])[..., 0] * mask[:, width:]
class Learner:
    def __init__(self, seed):
        torch.manual_seed(seed)
        self.policy, self.step, self.synced, self.gen = Lm(), 0, 0, torch.Generator().manual_seed(seed)
        self.actor = copy.deepcopy(self.policy).requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=1e-2)
    @torch.no_grad()
    def draw(self):
        mask = (torch.arange(4) >= torch.randint(0, 4, (4, 1), generator=self.gen)).repeat_interleave(3, 0)
        ids, alive = torch.randint(2, 12, (4, 4), generator=self.gen).repeat_interleave(3, 0) * mask, torch.ones(12).bool()
        for _ in range(8):
            new = torch.multinomial(self.actor(ids, mask)[:, -1].softmax(-1), 1, generator=self.gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        rewards = ((ids[:, 4:] < 5) & mask[:, 4:]).sum(1) / 8
        return (Scored(prompt_ids=ids[:, :4], prompt_mask=mask[:, :4], response_ids=ids[:, 4:], response_mask=mask[:, 4:],
                       loss_mask=mask[:, 4:], uid=objects([i // 3 for i in range(12)]), rewards=rewards,
                       rollout_logp=self.actor.logp(ids, mask, 4), policy_step=torch.full((12,), self.synced)),)
    def update(self, b):
        group = groups(b, "uid")
        advantage = ((b.rewards - group.mean(b.rewards)) / (group.std(b.rewards) + 1e-4))[:, None] * b.loss_mask
        ids, mask = (torch.cat([b["prompt_" + k], b["response_" + k]], 1) for k in ("ids", "mask"))
        logp = self.policy.logp(ids, mask, b.prompt_ids.shape[1])
        weight = (logp.detach() - b.rollout_logp)[b.loss_mask].exp().clamp(max=3.0)
        loss = -(weight * (advantage * logp)[b.loss_mask]).mean()
        self.optimizer.zero_grad(); loss.backward(); self.optimizer.step()
        self.step += 1
        if self.step % 3 == 0:
            self.synced = self.step; self.actor.load_state_dict(self.policy.state_dict())
        return loss.item()
def setup(seed: int = 0): return (learner := Learner(seed)).update, learner.draw
