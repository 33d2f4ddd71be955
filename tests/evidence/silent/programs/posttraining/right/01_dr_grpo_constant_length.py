"""Dr. GRPO: no division by the std of the group, and the loss of a row is divided by the longest response there can be."""

# arXiv:2503.20783: both a division by the row's length and by the std are biases
import torch

from tests.evidence.silent.shared.digits import RESPONSE, VOCAB, draw_prompts, generate, score, token_logp
from tests.evidence.silent.shared.models import Recurrent
from typedbatch import extend
from typedbatch.posttraining import Ready
from typedbatch.rows import groups, repeat

GROUP, MICRO, CLIP = 6, 16, 0.2


def micro_loss(model, micro, rows):
    """The sum over tokens, over rows and RESPONSE: the micro-batches add up to one loss of the batch."""
    ratio = (token_logp(model, micro) - micro.old_logp).exp()
    gain = torch.min(ratio * micro.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * micro.advantages)
    return -(gain * micro.loss_mask).sum() / (rows * RESPONSE)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = Recurrent(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def draw():
        return (score(generate(model, repeat(draw_prompts(16), GROUP))),)

    def update(scored):
        centred = scored.rewards - groups(scored, "uid", size=GROUP).mean(scored.rewards)
        with torch.no_grad():
            old_logp = token_logp(model, scored)
        ready = extend(scored, Ready, old_logp=old_logp, advantages=centred[:, None] * scored.loss_mask)
        for _ in range(2):
            optimizer.zero_grad()
            for micro in ready.split(MICRO, shuffle=False):
                micro_loss(model, micro, len(ready)).backward()
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
