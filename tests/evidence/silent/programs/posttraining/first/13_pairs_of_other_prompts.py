"""Online DPO: the best and the worst of the samples of each prompt make a pair."""
# wrong: """Online DPO: the place within a group is taken for a row of the batch, so a pair has responses to other prompts."""
import copy

import torch
import torch.nn.functional as F

from tests.evidence.silent.shared.digits import draw_prompts, sample
from tests.evidence.silent.shared.models import CausalLM
from typedbatch import extend
from typedbatch.posttraining import Pairs, Scored
from typedbatch.rows import repeat

DIGITS, PROMPT, RESPONSE = 6, 3, 4
VOCAB = DIGITS + 2
SAMPLES, BETA = 4, 0.1


def score(rollouts):
    """Return the number of tokens that are the first digit of the prompt."""
    first = rollouts.prompt_ids.gather(1, rollouts.prompt_mask.long().argmax(1, keepdim=True))
    hits = (rollouts.response_ids == first) & rollouts.response_mask
    return extend(rollouts, Scored, rewards=hits.sum(1).float() - 0.1 * rollouts.response_mask.sum(1))


def make_pairs(scored):
    table = scored.rewards.view(-1, SAMPLES)
    first = torch.arange(len(table)) * SAMPLES
    # wrong: first = torch.arange(len(table))
    chosen, rejected = scored[first + table.argmax(1)], scored[first + table.argmin(1)]
    prompts = scored[::SAMPLES]
    return Pairs(
        prompt_ids=prompts.prompt_ids,
        prompt_mask=prompts.prompt_mask,
        chosen_ids=chosen.response_ids,
        chosen_mask=chosen.response_mask,
        rejected_ids=rejected.response_ids,
        rejected_mask=rejected.response_mask,
    )


def sequence_logp(model, prompt_ids, prompt_mask, ids, mask):
    logits = model(torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1))[:, prompt_ids.shape[1] - 1 : -1]
    return (logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0] * mask).sum(1)


def margins(model, pairs):
    prompts = pairs.prompt_ids, pairs.prompt_mask
    chosen = sequence_logp(model, *prompts, pairs.chosen_ids, pairs.chosen_mask)
    return chosen - sequence_logp(model, *prompts, pairs.rejected_ids, pairs.rejected_mask)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = CausalLM(VOCAB)
    reference = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def draw():
        return (score(sample(model, repeat(draw_prompts(16, DIGITS, (2, PROMPT)), SAMPLES), RESPONSE, DIGITS)),)

    def update(scored):
        pairs = make_pairs(scored)
        for part in pairs.split(8, rng=torch.default_generator):
            loss = -F.logsigmoid(BETA * (margins(model, part) - margins(reference, part))).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    prompts = repeat(draw_prompts(8, DIGITS, (2, PROMPT)), SAMPLES)
    return {"pairs": (make_pairs, score(sample(CausalLM(VOCAB), prompts, RESPONSE, DIGITS)))}
