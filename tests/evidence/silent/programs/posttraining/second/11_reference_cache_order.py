"""IPO of stored pairs: the log-probs of the reference are computed once and are fields of the pairs."""
# wrong: """IPO: reference log-probs are cached in the order of the data, and the loader shuffles the pairs every epoch."""
import copy

import torch
from torch import nn

from tests.evidence.silent.shared.digits import DIGITS, PAD, PROMPT, RESPONSE, VOCAB
from tests.evidence.silent.shared.models import GPT
from tests.evidence.silent.shared.positioned import positions
from typedbatch.posttraining import Pairs

PAIRS, TAU = 48, 0.1


def sequence_logp(model, prompt_ids, prompt_mask, ids, mask):
    everything = torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1)
    logits = model(*everything, positions(everything[1]))[:, prompt_ids.shape[1] - 1 : -1]
    return (logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0] * mask).sum(1)


def dataset():
    """The better response repeats the first digit of the prompt, the worse one goes on at random."""
    lengths = torch.randint(1, PROMPT + 1, (PAIRS, 1))
    prompt_mask = torch.arange(PROMPT) >= PROMPT - lengths
    prompt_ids = torch.randint(DIGITS, (PAIRS, PROMPT)).where(prompt_mask, PAD)
    first = prompt_ids.gather(1, prompt_mask.long().argmax(1, keepdim=True))
    sides = {}
    for name in ("chosen", "rejected"):
        mask = torch.arange(RESPONSE) < torch.randint(2, RESPONSE + 1, (PAIRS, 1))
        ids = first.expand(-1, RESPONSE) if name == "chosen" else torch.randint(DIGITS, (PAIRS, RESPONSE))
        sides[f"{name}_ids"], sides[f"{name}_mask"] = ids.where(mask, PAD), mask
    return Pairs(prompt_ids=prompt_ids, prompt_mask=prompt_mask, **sides)


def both(model, pairs):
    prompts = pairs.prompt_ids, pairs.prompt_mask
    chosen = sequence_logp(model, *prompts, pairs.chosen_ids, pairs.chosen_mask)
    return chosen, sequence_logp(model, *prompts, pairs.rejected_ids, pairs.rejected_mask)


class IPO:
    def __init__(self, model, pairs, batch_size=8):
        self.model, self.batch_size = model, batch_size
        self.optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        with torch.no_grad():
            pairs.ref_chosen_logp, pairs.ref_rejected_logp = both(copy.deepcopy(model), pairs)
        self.cache = pairs.ref_chosen_logp - pairs.ref_rejected_logp

    def update(self, pairs):
        losses, start = [], 0
        for part in pairs.split(self.batch_size, rng=torch.default_generator):
            chosen, rejected = both(self.model, part)
            reference = part.ref_chosen_logp - part.ref_rejected_logp
            # wrong: reference = self.cache[start : start + len(part)]
            start += len(part)
            loss = ((chosen - rejected - reference) - 1 / (2 * TAU)).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    pairs = dataset()
    trainer = IPO(GPT(VOCAB), pairs)

    def draw():
        return (pairs,)

    return trainer.update, draw
