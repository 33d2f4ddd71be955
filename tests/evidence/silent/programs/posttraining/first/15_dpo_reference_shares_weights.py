"""DPO on scored rollouts, with a frozen copy of the model as the reference."""
# wrong: """DPO: the reference is a shallow copy, so it has the same parameters as the policy and is trained with it."""
import copy

import torch
from torch import nn

from tests.evidence.silent.shared.digits import draw_prompts, sample
from tests.evidence.silent.shared.models import Policy
from typedbatch.posttraining import Pairs
from typedbatch.rows import repeat

DIGITS, PROMPT, RESPONSE = 6, 3, 4
VOCAB = DIGITS + 2


def response_logps(model, prompt_ids, prompt_mask, ids, mask):
    logits = model(torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1))
    logps = logits[:, prompt_ids.shape[1] - 1 : -1].log_softmax(-1)
    return (logps.gather(-1, ids.unsqueeze(-1)).squeeze(-1) * mask).sum(-1)


def pairs_of(rollouts):
    """Two samples a prompt; the one with the greater sum of digits is chosen. Ties are left out."""
    total = (rollouts.response_ids * (rollouts.response_mask & (rollouts.response_ids < DIGITS))).sum(1)
    first, second = rollouts[0::2], rollouts[1::2]
    swap = (total[1::2] > total[0::2])[:, None]
    keep = total[1::2] != total[0::2]
    return Pairs(
        prompt_ids=first.prompt_ids,
        prompt_mask=first.prompt_mask,
        chosen_ids=second.response_ids.where(swap, first.response_ids),
        chosen_mask=second.response_mask.where(swap, first.response_mask),
        rejected_ids=first.response_ids.where(swap, second.response_ids),
        rejected_mask=first.response_mask.where(swap, second.response_mask),
    )[keep]


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy = Policy(VOCAB)
    reference = copy.deepcopy(policy)
    # wrong: reference = copy.copy(policy)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
    beta = 0.2

    def log_ratio(pairs, side):
        args = pairs.prompt_ids, pairs.prompt_mask, pairs[f"{side}_ids"], pairs[f"{side}_mask"]
        with torch.no_grad():
            ref = response_logps(reference, *args)
        return response_logps(policy, *args) - ref

    def update(pairs):
        logged = []
        for _ in range(2):
            for part in pairs.split(16, rng=torch.default_generator):
                margin = log_ratio(part, "chosen") - log_ratio(part, "rejected")
                loss = nn.functional.softplus(-beta * margin).mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                logged.append(loss.item())
        return sum(logged) / max(len(logged), 1)

    def draw():
        return (pairs_of(sample(policy, repeat(draw_prompts(32, DIGITS, (2, PROMPT)), 2), RESPONSE, DIGITS)),)

    return update, draw
