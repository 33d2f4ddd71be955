"""DAPO: groups without variance are dropped, then there are a fixed number of rows per step, with asymmetric clipping."""
# wrong: """DAPO: groups without variance are dropped from the rollouts but not from the advantages: rows get those of other rows."""

# dynamic sampling with tensors beside the batch; verl's and open-instruct's filters index every tensor one by one
import torch
from torch import nn

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, sample, token_logp
from tests.evidence.silent.shared.models import Decoder
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

RESPONSE = 6
PROMPTS, GROUP, CLIP_LOW, CLIP_HIGH = 24, 4, 0.2, 0.28


def score(rollouts):
    """Right or wrong: whether the first token is the last digit of the prompt, or one more."""
    last = rollouts.prompt_ids[:, -1]
    first = rollouts.response_ids[:, 0]
    return extend(rollouts, Scored, rewards=((first == last) | (first == last + 1)).float())


def normalized(scored):
    """A number per row, and whether its group has any variance."""
    by_prompt = groups(scored, "uid", size=GROUP)
    std = by_prompt.std(scored.rewards)
    return (scored.rewards - by_prompt.mean(scored.rewards)) / (std + 1e-6), std > 0


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = Decoder(VOCAB)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def draw():
        return (score(sample(model, repeat(draw_prompts(PROMPTS), GROUP), RESPONSE)),)

    def prepare(scored):
        advantages, informative = normalized(scored)
        kept = scored[informative]
        advantages = advantages[informative]
        # wrong: advantages = advantages[: len(kept)]
        with torch.no_grad():
            old = token_logp(model, kept)
        return extend(kept, Ready, old_logp=old, advantages=advantages[:, None] * kept.loss_mask)

    def policy_loss(part):
        ratio = (token_logp(model, part) - part.old_logp).exp()
        clipped = ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
        return -torch.min(ratio * part.advantages, clipped * part.advantages)[part.loss_mask].sum()

    def update(scored):
        ready, losses = prepare(scored), []
        for part in ready.split(2 * GROUP, rng=torch.default_generator):
            loss = policy_loss(part) / part.loss_mask.sum()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        return {"kept": len(ready), "loss": sum(losses) / max(1, len(losses))}

    return update, draw
