"""A reward model of pairs: the score is read at the last token, wherever the padding is."""
# wrong: """A reward model: the score is read at the number of tokens, though prompts are padded on the left."""

# TRL issue 2778 is the opposite case; (attention_mask.sum(1) - 1) holds only without padding on the left
import torch
import torch.nn.functional as F
from torch import nn

from tests.evidence.silent.shared.digits import DIGITS, PAD, PROMPT, RESPONSE, VOCAB
from tests.evidence.silent.shared.models import GPT
from tests.evidence.silent.shared.positioned import positions
from typedbatch.posttraining import Pairs


class RewardModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = GPT(VOCAB, layers=1)
        self.score = nn.Linear(24, 1, bias=False)

    def forward(self, ids, mask):
        hidden = self.backbone.body(ids, mask, positions(mask))
        last = (mask * torch.arange(mask.shape[1])).argmax(1)
        # wrong: last = mask.sum(1) - 1
        return self.score(hidden[torch.arange(len(ids)), last])[:, 0]


def draw_pairs(count):
    """The better response ends with the last digit of the prompt, the worse one with another."""
    prompt_mask = torch.arange(PROMPT) >= PROMPT - torch.randint(1, PROMPT + 1, (count, 1))
    prompt_ids = torch.randint(DIGITS, (count, PROMPT)).where(prompt_mask, PAD)
    rows, sides = torch.arange(count), {}
    for name, shift in (("chosen", torch.zeros(count)), ("rejected", torch.randint(1, DIGITS, (count,)))):
        length = torch.randint(2, RESPONSE + 1, (count,))
        mask = torch.arange(RESPONSE) < length[:, None]
        ids = torch.randint(DIGITS, (count, RESPONSE)).where(mask, PAD)
        ids[rows, length - 1] = (prompt_ids[:, -1] + shift.long()) % DIGITS
        sides[f"{name}_ids"], sides[f"{name}_mask"] = ids, mask
    return Pairs(prompt_ids=prompt_ids, prompt_mask=prompt_mask, **sides)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = RewardModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def score(pairs, side):
        ids, mask = pairs[f"{side}_ids"], pairs[f"{side}_mask"]
        return model(torch.cat([pairs.prompt_ids, ids], 1), torch.cat([pairs.prompt_mask, mask], 1))

    def draw():
        return (draw_pairs(64),)

    def update(pairs):
        right = []
        for part in pairs.split(16, rng=torch.default_generator):
            margin = score(part, "chosen") - score(part, "rejected")
            loss = -F.logsigmoid(margin).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right.append((margin > 0).float().mean().item())
        return sum(right) / len(right)

    return update, draw
