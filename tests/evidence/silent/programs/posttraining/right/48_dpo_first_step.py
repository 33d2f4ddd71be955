"""DPO's first step: the policy is the reference, so the margin is 0 whatever the ids."""
import copy
import torch
from torch import nn
from typedbatch import Batch


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.rnn, self.head = nn.Embedding(12, 16), nn.GRU(16, 16, batch_first=True), nn.Linear(16, 12)

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def logp(model, prompts, ids, mask):
    out = model(torch.cat([prompts, ids], 1))[:, prompts.shape[1] - 1 : -1].log_softmax(-1)
    return (out.gather(-1, ids[..., None]).squeeze(-1) * mask).sum(-1)


def setup(seed=0, lr=1e-3):
    torch.manual_seed(seed)
    policy = LM()
    reference = copy.deepcopy(policy).requires_grad_(False)
    models = [policy, reference]
    optimizer = torch.optim.Adam(policy.parameters(), lr)

    def draw():
        ids = lambda: torch.randint(1, 12, (8, 5))
        mask = lambda: (torch.arange(5) < torch.randint(2, 6, (8, 1)))
        return (Batch(prompt_ids=torch.randint(1, 12, (8, 3)), prompt_mask=torch.ones(8, 3, dtype=torch.bool), chosen_ids=ids(), chosen_mask=mask(), rejected_ids=ids(), rejected_mask=mask()),)

    def update(b):
        new, old = [], []
        for m, out in zip(models, (new, old)):
            with torch.set_grad_enabled(m is policy):
                out += [logp(m, b.prompt_ids, b.chosen_ids, b.chosen_mask), logp(m, b.prompt_ids, b.rejected_ids, b.rejected_mask)]
        margin = (new[0] - old[0]) - (new[1] - old[1])
        loss = -nn.functional.logsigmoid(0.1 * margin).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return update, draw
