"""Iterative DPO: both sides in one forward pass, the reference's log-probs stored before, smoothed labels, an SFT term."""

# conservative DPO (eric-mitchell.ai/cdpo.pdf), and the SFT term of "Iterative reasoning preference optimization"
import torch
import torch.nn.functional as F

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, score
from tests.evidence.silent.shared.models import GPT
from tests.evidence.silent.shared.positioned import generate, positions
from typedbatch.posttraining import Pairs
from typedbatch.rows import repeat

SAMPLES, BETA, SMOOTHING, SFT = 6, 0.2, 0.1, 0.05


def sequence_logp(model, prompt_ids, prompt_mask, ids, mask):
    everything = torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1)
    logits = model(*everything, positions(everything[1]))[:, prompt_ids.shape[1] - 1 : -1]
    return (logits.log_softmax(-1).gather(-1, ids[..., None])[..., 0] * mask).sum(1)


def both_sides(model, pairs):
    """The chosen rows on top of the rejected ones: a forward pass of twice the rows."""
    logp = sequence_logp(
        model,
        torch.cat([pairs.prompt_ids, pairs.prompt_ids]),
        torch.cat([pairs.prompt_mask, pairs.prompt_mask]),
        torch.cat([pairs.chosen_ids, pairs.rejected_ids]),
        torch.cat([pairs.chosen_mask, pairs.rejected_mask]),
    )
    return logp[: len(pairs)], logp[len(pairs) :]


@torch.no_grad()
def make_pairs(model, scored):
    """The best and the worst of each prompt, without prompts whose samples are all alike."""
    table = scored.rewards.view(-1, SAMPLES)
    start = torch.arange(0, len(scored), SAMPLES)
    differ = table.amax(1) > table.amin(1)
    best, worst = scored[(start + table.argmax(1))[differ]], scored[(start + table.argmin(1))[differ]]
    pairs = Pairs(
        prompt_ids=best.prompt_ids,
        prompt_mask=best.prompt_mask,
        chosen_ids=best.response_ids,
        chosen_mask=best.response_mask,
        rejected_ids=worst.response_ids,
        rejected_mask=worst.response_mask,
    )
    pairs.ref_chosen_logp, pairs.ref_rejected_logp = both_sides(model, pairs)  # the model of this iteration
    return pairs


def dpo_loss(model, pairs):
    chosen, rejected = both_sides(model, pairs)
    margin = BETA * ((chosen - pairs.ref_chosen_logp) - (rejected - pairs.ref_rejected_logp))
    losses = -(1 - SMOOTHING) * F.logsigmoid(margin) - SMOOTHING * F.logsigmoid(-margin)
    return losses.mean() - SFT * (chosen / pairs.chosen_mask.sum(1)).mean()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = GPT(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def draw():
        scored = score(generate(model, repeat(draw_prompts(16), SAMPLES)))
        return make_pairs(model, scored), scored.rewards.mean().item()

    def update(pairs, mean_reward):
        for _ in range(2):
            for part in pairs.split(8, rng=torch.default_generator):
                optimizer.zero_grad()
                dpo_loss(model, part).backward()
                optimizer.step()
        return mean_reward

    return update, draw
