"""SFT on the rollouts of a better model, with the token of the end as padding, too."""
# wrong: """SFT: padding is found by its id, which is also that of the end, so the model is never taught to stop."""

# tokenizer.pad_token = tokenizer.eos_token and labels[labels == pad_token_id] = -100
import numpy as np
import torch
from torch import nn

from tests.evidence.silent.shared.letters import generate, make_prompts
from tests.evidence.silent.shared.models import Policy
from typedbatch import extend
from typedbatch.posttraining import Rollouts, Scored
from typedbatch.rows import repeat

LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 6
EOS = PAD = 6
VOCAB = 7


def filtered(rollouts: Rollouts) -> Scored:
    """Those that end at once after a letter or two."""
    rewards = (rollouts.response_length <= 3).float() * (~rollouts.truncated)
    scored = extend(rollouts, Scored, rewards=rewards)
    return scored[scored.rewards > 0]


def labels_of(batch):
    labels = torch.cat([torch.full_like(batch.prompt_ids, -100), batch.response_ids], dim=1)
    return labels.masked_fill(~torch.cat([batch.prompt_mask, batch.response_mask], dim=1), -100)
    # wrong: return labels.masked_fill(labels == PAD, -100)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    teacher, model = Policy(VOCAB), Policy(VOCAB)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def draw():
        return (filtered(generate(teacher, repeat(make_prompts(rng, 24, LETTERS, MAX_PROMPT), 2), MAX_NEW, PAD, EOS)),)

    def update(batch):
        losses = []
        for part in batch.split(8, rng=torch.default_generator, merge_last=True):
            input_ids = torch.cat([part.prompt_ids, part.response_ids], dim=1)
            attention_mask = torch.cat([part.prompt_mask, part.response_mask], dim=1)
            logits = model(input_ids, attention_mask)
            shift_logits, shift_labels = logits[:, :-1], labels_of(part)[:, 1:]
            loss = nn.functional.cross_entropy(shift_logits.reshape(-1, VOCAB), shift_labels.reshape(-1), ignore_index=-100)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    return update, draw
