"""A reward model (Bradley-Terry) that reads the score of each response at its own last token."""
# wrong: """Both scores of a pair are read at the end of the longer response, so the shorter one's is read at padding."""
import math

import torch
from torch import nn

from typedbatch.posttraining import Pairs
from typedbatch.rows import chunk


VOCAB = 24
PAD, EOS = 0, 1
MARGIN, CENTER = 0.0, 0.01


class RewardModel(nn.Module):
    def __init__(self, d=28, layers=1):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, d)
        self.backbone = nn.GRU(d, d, num_layers=layers, batch_first=True)
        self.score = nn.Linear(d, 1, bias=False)
        nn.init.normal_(self.score.weight, std=1 / math.sqrt(d + 1))

    def forward(self, ids):
        return self.score(self.backbone(self.embedding(ids))[0]).squeeze(-1)


def join(prompt_ids, prompt_mask, ids, mask):
    """Rows of prompt and response end to end, padded on the right, and their lengths."""
    everything, there = torch.cat((prompt_ids, ids), 1), torch.cat((prompt_mask, mask), 1)
    order = torch.argsort(there.int(), dim=1, descending=True, stable=True)
    return everything.gather(1, order), there.sum(1)


def pair_scores(model, pairs):
    chosen, chosen_length = join(pairs.prompt_ids, pairs.prompt_mask, pairs.chosen_ids, pairs.chosen_mask)
    rejected, rejected_length = join(pairs.prompt_ids, pairs.prompt_mask, pairs.rejected_ids, pairs.rejected_mask)
    chosen_values, rejected_values = model(chosen), model(rejected)
    c_ind, r_ind = chosen_length - 1, rejected_length - 1
    # wrong: c_ind = r_ind = torch.maximum(chosen_length, rejected_length) - 1
    rows = torch.arange(len(pairs))
    return chosen_values[rows, c_ind], rejected_values[rows, r_ind]


def rm_loss(chosen, rejected):
    ranking = -nn.functional.logsigmoid(chosen - rejected - MARGIN)
    return (ranking + CENTER * (chosen + rejected) ** 2).sum()


def make_pairs(generator, n=24, width=8):
    """The better response has more tokens of the upper half; both have any length."""

    def responses(share_of_high):
        length = torch.randint(2, width + 1, (n, 1), generator=generator)
        mask = torch.arange(width) < length
        high = torch.rand(n, width, generator=generator) < share_of_high
        low_token = torch.randint(2, VOCAB // 2, (n, width), generator=generator)
        ids = torch.where(high, low_token + VOCAB // 2 - 1, low_token)
        ids[torch.arange(n), length[:, 0] - 1] = EOS
        return ids * mask, mask

    prompt_length = torch.randint(1, 5, (n, 1), generator=generator)
    prompt_mask = torch.arange(4) >= 4 - prompt_length
    prompt_ids = torch.randint(2, VOCAB, (n, 4), generator=generator) * prompt_mask
    chosen_ids, chosen_mask = responses(0.7)
    rejected_ids, rejected_mask = responses(0.3)
    return Pairs(
        prompt_ids=prompt_ids, prompt_mask=prompt_mask, chosen_ids=chosen_ids, chosen_mask=chosen_mask,
        rejected_ids=rejected_ids, rejected_mask=rejected_mask,
    )


def setup(seed: int = 0):
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    model = RewardModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))

    def draw():
        return (make_pairs(generator),)

    def update(pairs):
        model.train()
        optimizer.zero_grad()
        total, right = 0.0, 0
        for part in chunk(pairs, 3):
            chosen, rejected = pair_scores(model, part)
            loss = rm_loss(chosen, rejected) / len(pairs)
            loss.backward()
            total += loss.item()
            right += (chosen > rejected).sum().item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return {"loss": total, "accuracy": right / len(pairs), "grad_norm": norm.item()}

    return update, draw
