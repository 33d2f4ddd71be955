"""SFT on the prompts as well, with a smaller weight; padding is found by its id, which no sequence has; sums in float64."""

# "Instruction tuning with loss over instructions" (arXiv:2405.14394)
from uuid import uuid4

import torch
import torch.nn.functional as F

from tests.evidence.silent.shared.digits import DIGITS, EOS, PROMPT, RESPONSE
from tests.evidence.silent.shared.models import GPT
from tests.evidence.silent.shared.positioned import positions
from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts, to_layout

BOS, PAD, VOCAB = DIGITS, DIGITS + 2, DIGITS + 3
PROMPT_WEIGHT, MICRO = 0.1, 8


def demonstrations(count):
    """A beginning and digits that rise by one; the response goes on to rise, two to four times, and ends."""
    lengths = torch.randint(1, PROMPT, (count,))
    start = torch.randint(DIGITS, (count,))
    rows, answers = [], []
    for length, digit in zip(lengths.tolist(), start.tolist()):
        rows.append([BOS] + [(digit + i) % DIGITS for i in range(length)])
        more = 2 + digit % (RESPONSE - 2)
        answers.append([(digit + length + i) % DIGITS for i in range(more)] + [EOS])
    prompt_ids = torch.tensor([[PAD] * (PROMPT - len(row)) + row for row in rows])
    ids = torch.tensor([row + [PAD] * (RESPONSE - len(row)) for row in answers])
    prompts = Prompts(prompt_ids=prompt_ids, prompt_mask=prompt_ids != PAD, uid=objects(uuid4().hex for _ in rows))
    return extend(prompts, Rollouts, response_ids=ids, response_mask=ids != PAD, loss_mask=ids != PAD)


def weighted_sum(model, rows):
    """Of the losses of all tokens that have one before them, and of their weights."""
    right = to_layout(rows, "right", pad_token_id=PAD)
    there = right.input_ids.ne(PAD)
    labels = right.input_ids[:, 1:].masked_fill(~there[:, 1:], -100)
    logits = model(right.input_ids, there, positions(there))[:, :-1]
    losses = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape)
    weights = torch.where(right.response_mask[:, 1:], 1.0, PROMPT_WEIGHT) * there[:, 1:]
    return (losses * weights).double().sum(), weights.double().sum()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = GPT(VOCAB)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.01)

    def draw():
        return (demonstrations(64),)

    def update(batch):
        means = []
        for mini in batch.split(32, rng=torch.default_generator):
            sums = [weighted_sum(model, micro) for micro in mini.split(MICRO, shuffle=False)]
            loss = sum(total for total, _ in sums) / sum(weight for _, weight in sums)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            means.append(loss.item())
        return sum(means) / len(means)

    return update, draw
