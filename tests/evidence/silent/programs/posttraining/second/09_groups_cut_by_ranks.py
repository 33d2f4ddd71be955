"""GRPO on two ranks: advantages over whole groups, then rows are balanced by tokens."""
# wrong: """GRPO on two ranks: rows are balanced by tokens first, so each rank normalizes over the part of a group it has got."""
import torch

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, generate, score, token_logp
from tests.evidence.silent.shared.models import Recurrent
from typedbatch import extend
from typedbatch.posttraining import Ready
from typedbatch.rows import balance, groups, repeat

GROUP, RANKS, CLIP = 4, 2, 0.2


@torch.no_grad()
def with_advantages(model, scored):
    by_prompt = groups(scored, "uid")
    advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
    old_logp = token_logp(model, scored)
    return extend(scored, Ready, old_logp=old_logp, advantages=advantages[:, None] * scored.loss_mask)


def rank_loss(model, local, tokens):
    ratio = (token_logp(model, local) - local.old_logp).exp()
    gain = torch.min(ratio * local.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * local.advantages)
    return -(gain * local.loss_mask).sum() / tokens


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = Recurrent(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def draw():
        return (score(generate(model, repeat(draw_prompts(16), GROUP))),)

    def update(scored):
        rows = balance(scored.response_length, RANKS)
        ready = with_advantages(model, scored)
        # wrong: local = [with_advantages(model, scored[mine]) for mine in rows]
        local = [ready[mine] for mine in rows]
        # wrong: without this line
        for _ in range(2):
            optimizer.zero_grad()
            for rank in range(RANKS):  # stands for processes whose gradients are summed
                rank_loss(model, local[rank], scored.loss_mask.sum()).backward()
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
