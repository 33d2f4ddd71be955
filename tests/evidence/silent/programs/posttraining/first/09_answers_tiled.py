"""RLVR with answers from a data set, repeated with their prompts."""
# wrong: """RLVR: prompts are repeated as a a b b, and the answers beside them as a b a b, so responses are judged by other answers."""

# the classic of repeat and tile; verl issue 148 is the same join without a repeat
import torch

from tests.evidence.silent.shared.digits import draw_prompts, sample, token_logp as logp
from tests.evidence.silent.shared.models import CausalLM
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

DIGITS, PROMPT, RESPONSE = 6, 3, 3
VOCAB = DIGITS + 2
GROUP = 6


def answers_of(prompts):
    """The data set knows them: the greatest digit of each prompt."""
    return prompts.prompt_ids.where(prompts.prompt_mask, -1).max(1).values


def verify(rollouts):
    questions = rollouts[::GROUP]
    answers = answers_of(questions).repeat_interleave(GROUP)
    # wrong: answers = answers_of(questions).repeat(GROUP)
    right = (rollouts.response_ids == answers[:, None]) & rollouts.response_mask
    return extend(rollouts, Scored, rewards=right.any(1).float() + right[:, 0])


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = CausalLM(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def draw():
        return (verify(sample(model, repeat(draw_prompts(10, DIGITS, (2, PROMPT)), GROUP), RESPONSE, DIGITS)),)

    def update(scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        with torch.no_grad():
            old = logp(model, scored)
        ready = extend(scored, Ready, old_logp=old, advantages=advantages[:, None] * scored.loss_mask)
        for part in ready.split(30, rng=torch.default_generator):
            ratio = (logp(model, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(0.8, 1.2) * part.advantages)
            optimizer.zero_grad()
            (-(gain * part.loss_mask).sum() / part.loss_mask.sum()).backward()
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    model = CausalLM(VOCAB)
    return {"reward": (verify, sample(model, repeat(draw_prompts(6, DIGITS, (2, PROMPT)), GROUP), RESPONSE, DIGITS))}
