"""ORPO: no reference; the NLL of chosen tokens plus the log odds ratio of mean log-probabilities, a backward for each."""
import torch
import torch.nn.functional as F
from typedbatch import Batch

class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.conv, self.head = torch.nn.Embedding(12, 16), torch.nn.Linear(16 * 4, 24), torch.nn.Linear(24, 12)

    def forward(self, ids, mask):  # padding on the left is zeros, as is what the convolution has before a first token
        x = F.pad(self.tok(ids) * mask[..., None], (0, 0, 3, 0)).unfold(1, 4, 1)  # each token beside the three before it
        return self.head(F.gelu(self.conv(x.flatten(2))))

def setup(seed: int = 0):
    torch.manual_seed(seed)
    model, gen = Conv(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)

    def token_logp(b, side):
        ids, mask = b[side + "_ids"], b[side + "_mask"]
        logits = model(torch.cat([b.prompt_ids, ids], 1), torch.cat([b.prompt_mask, mask], 1))
        logits = logits[:, b.prompt_ids.shape[1] - 1 : -1]
        return logits.gather(-1, ids[..., None])[..., 0] - logits.logsumexp(-1), mask
    def log_odds(logp, mask):
        mean = torch.where(mask, logp, 0.0).sum(1) / mask.sum(1)
        return mean - torch.log(-torch.expm1(mean))
    def update(b):
        chosen, rejected = token_logp(b, "chosen"), token_logp(b, "rejected")
        nll = -chosen[0][chosen[1]].mean()
        odds = -0.25 * F.logsigmoid(log_odds(*chosen) - log_odds(*rejected)).mean()
        optimizer.zero_grad()
        nll.backward(retain_graph=True)
        odds.backward()
        optimizer.step()
        return nll.item() + odds.item()
    def draw():
        fields = {}
        for name, width in (("prompt", 4), ("chosen", 7), ("rejected", 7)):
            length = torch.randint(2, width + 1, (9, 1), generator=gen)
            at = torch.arange(width).flip(0) if name == "prompt" else torch.arange(width)
            fields[name + "_mask"] = at < length
            fields[name + "_ids"] = torch.randint(0, 12, (9, width), generator=gen).masked_fill(at >= length, 11)
        return (Batch(fields),)
    return update, draw
