"""IPO, the squared distance of the summed log-ratio margin to 1 / (2 beta), by token_logp of typedbatch, with SGD."""
import copy
import torch
from typedbatch.posttraining import Pairs, token_logp

class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.place = torch.nn.Embedding(12, 16), torch.nn.Embedding(12, 16)
        self.qkv, self.head = torch.nn.Linear(16, 48), torch.nn.Linear(16, 12)

    def forward(self, *, input_ids, attention_mask, position_ids, use_cache):
        size = input_ids.shape[1]
        x = self.tok(input_ids) + self.place(position_ids)
        q, k, v = self.qkv(x).chunk(3, -1)
        seen = attention_mask.bool()[:, None, :] & torch.ones(size, size).tril().bool()
        seen = seen | torch.eye(size).bool()  # padding sees itself, so that no softmax is over nothing
        weights = (q @ k.transpose(1, 2) / 4).masked_fill(~seen, -torch.inf).softmax(-1)
        return self.head(torch.tanh(x + weights @ v))

def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, gen, beta = Attention(), torch.Generator().manual_seed(seed), 0.5
    reference = copy.deepcopy(policy).requires_grad_(False)
    optimizer = torch.optim.SGD(policy.parameters(), lr=5e-2)

    def total(model, side):
        return token_logp(model, side, temperature=1.0).masked_fill(~side.response_mask, 0.0).sum(1)
    def update(pairs):
        with torch.no_grad():
            fixed = total(reference, pairs.chosen) - total(reference, pairs.rejected)
        margin = total(policy, pairs.chosen) - total(policy, pairs.rejected) - fixed
        loss = (margin - 1 / (2 * beta)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    def draw():
        lengths = torch.randint(1, 6, (3, 10, 1), generator=gen)
        ids, at = torch.randint(0, 12, (3, 10, 5), generator=gen), torch.arange(5)
        masks = at >= 5 - lengths[0], at < lengths[1], at < lengths[2]
        return (Pairs(prompt_ids=ids[0], prompt_mask=masks[0], chosen_ids=ids[1], chosen_mask=masks[1],
                      rejected_ids=ids[2], rejected_mask=masks[2]),)  # padding has any ids
    return update, draw
