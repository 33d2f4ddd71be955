"""cDPO (label smoothing 0.1) with reference log-probabilities as fields, one forward of both sides, accumulated gradients."""
import copy
import torch
import torch.nn.functional as F
from typedbatch.posttraining import Pairs

def logps(net, b):  # both sides in one forward: the chosen rows, then the rejected rows, padded to one width
    width = max(b.chosen_ids.shape[1], b.rejected_ids.shape[1])
    wide = lambda x: F.pad(x, (0, width - x.shape[1]))
    ids, mask = torch.cat([wide(b.chosen_ids), wide(b.rejected_ids)]), torch.cat([wide(b.chosen_mask), wide(b.rejected_mask)])
    every, there = torch.cat([b.prompt_ids.repeat(2, 1), ids], 1), torch.cat([b.prompt_mask.repeat(2, 1), mask], 1)
    x = net["tok"](every) + net["place"]((there.cumsum(1) - 1).clamp(min=0))
    x = F.pad(x * there[..., None], (0, 0, 2, 0)).unfold(1, 3, 1).flatten(2)  # each token beside the two before it
    logits = net["head"](torch.tanh(net["conv"](x)))[:, b.prompt_ids.shape[1] - 1 : -1]
    logp = -F.cross_entropy(logits.transpose(1, 2), ids, reduction="none")
    return (logp * mask).sum(1).chunk(2)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    net = torch.nn.ModuleDict({"tok": torch.nn.Embedding(12, 16), "place": torch.nn.Embedding(12, 16),
                               "conv": torch.nn.Linear(16 * 3, 16), "head": torch.nn.Linear(16, 12)})
    reference, gen = copy.deepcopy(net).requires_grad_(False), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=0.0)
    def draw():
        out = {}
        for name, width in (("prompt", 4), ("chosen", 6), ("rejected", 8)):
            length, at = torch.randint(1, width + 1, (12, 1), generator=gen), torch.arange(width)
            out[name + "_mask"] = at >= width - length if name == "prompt" else at < length
            out[name + "_ids"] = torch.randint(1, 12, (12, width), generator=gen) * out[name + "_mask"]
        pairs = Pairs(**out)
        with torch.no_grad():
            pairs.ref_chosen_logp, pairs.ref_rejected_logp = logps(reference, pairs)
        return (pairs,)
    def update(pairs, beta=0.2, smooth=0.1, size=4):
        optimizer.zero_grad()
        total = 0.0
        for part in (pairs[start : start + size] for start in range(0, len(pairs), size)):
            chosen, rejected = logps(net, part)
            margin = beta * ((chosen - part.ref_chosen_logp) - (rejected - part.ref_rejected_logp))
            loss = -((1 - smooth) * F.logsigmoid(margin) + smooth * F.logsigmoid(-margin)).sum() / len(pairs)
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total
    return update, draw
