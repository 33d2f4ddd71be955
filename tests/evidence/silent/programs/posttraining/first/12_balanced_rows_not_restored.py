"""GRPO with old log-probs computed in parts that are balanced by tokens, and put back in the order of rows."""
# wrong: """GRPO: old log-probs are computed in parts that are balanced by tokens, and never put back in the order of rows."""

# verl issue 2185: with use_dynamic_bsz the rows of the log-probs came back in another order
import numpy as np
import torch

from tests.evidence.silent.shared.letters import generate, get_per_token_logps, make_prompts
from tests.evidence.silent.shared.models import CausalLM
from typedbatch import Batch, extend
# wrong: from typedbatch import Batch, cat, extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import balance, groups, repeat, restore
# wrong: from typedbatch.rows import balance, groups, repeat

LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 5
PAD, EOS, VOCAB = 6, 7, 8
SAMPLES, WORKERS = 6, 3


@torch.no_grad()
def old_log_probs(model, data):
    """In parts of about as many tokens, one for each worker."""
    rows = balance(data.prompt_mask.sum(1) + data.response_mask.sum(1), WORKERS)
    parts = [Batch(old_logp=get_per_token_logps(model, data[i])) for i in rows]
    return restore(parts, rows).old_logp
    # wrong: return cat(parts).old_logp


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = CausalLM(VOCAB)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3)

    def draw():
        rollouts = generate(model, repeat(make_prompts(rng, 8, LETTERS, MAX_PROMPT), SAMPLES), MAX_NEW, PAD, EOS)
        low = (rollouts.response_ids < 2) & rollouts.response_mask
        return (extend(rollouts, Scored, rewards=low.sum(1) / rollouts.response_length),)

    def update(scored):
        g = groups(scored, "uid", size=SAMPLES)
        adv = (scored.rewards - g.mean(scored.rewards)) / (g.std(scored.rewards) + 1e-6)
        ready = extend(scored, Ready, old_logp=old_log_probs(model, scored), advantages=adv[:, None] * scored.loss_mask)
        for mini in ready.split(24, rng=torch.default_generator):
            ratio = torch.exp(get_per_token_logps(model, mini) - mini.old_logp)
            pg = torch.max(-mini.advantages * ratio, -mini.advantages * ratio.clamp(0.8, 1.2))
            opt.zero_grad()
            ((pg * mini.loss_mask).sum() / mini.loss_mask.sum()).backward()
            opt.step()
        return scored.rewards.mean().item()

    return update, draw
