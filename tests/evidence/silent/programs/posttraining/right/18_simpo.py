"""SimPO: mean log-probabilities with a target margin, no reference; the policy is in eval mode and has a dropout of 0."""
import torch
import torch.nn.functional as F
from typedbatch.posttraining import Pairs

class Policy(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.cell, self.drop = torch.nn.Embedding(12, 20), torch.nn.GRUCell(20, 20), torch.nn.Dropout(0.0)

    def forward(self, ids, mask):  # the embedding is the head as well
        state, states = self.tok.weight.new_zeros(len(ids), 20), []
        for token, there in zip(ids.unbind(1), mask.unbind(1)):
            state = torch.where(there[:, None], self.cell(self.drop(self.tok(token)), state), state)
            states.append(state)
        return F.linear(self.drop(torch.stack(states, 1)), self.tok.weight)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, gen, beta, gamma = Policy().eval(), torch.Generator().manual_seed(seed), 2.0, 1.0
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4))  # warms up

    def mean_logp(side):
        ids, mask = (torch.cat([side["prompt_" + k], side["response_" + k]], 1) for k in ("ids", "mask"))
        logp = policy(ids, mask)[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
        logp = logp[:, -side.response_ids.shape[1] :]
        return logp.masked_fill(~side.response_mask, 0.0).sum(1) / side.response_mask.sum(1)
    def update(pairs):
        margin = beta * (mean_logp(pairs.chosen) - mean_logp(pairs.rejected)) - gamma
        loss = F.softplus(-margin).mean()  # is -log(sigmoid(margin))
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        return loss.item()
    def draw():
        p, c, r = torch.randint(1, 6, (3, 8, 1), generator=gen)
        ids, at = torch.randint(2, 12, (3, 8, 6), generator=gen), torch.arange(6)
        pm, cm, rm = at >= 6 - p, at < c + 1, at < r + 1
        return (Pairs(prompt_ids=ids[0] * pm, prompt_mask=pm, chosen_ids=ids[1] * cm, chosen_mask=cm,
                      rejected_ids=ids[2] * rm, rejected_mask=rm),)
    return update, draw
