"""GRPO with gradients accumulated over micro-batches, then one step."""
# wrong: """GRPO: the gradients are set to zero before each micro-batch, so a step has only those of the last one."""
import numpy as np
import torch
from torch import nn

from tests.evidence.silent.shared.letters import generate, get_per_token_logps, make_prompts
from tests.evidence.silent.shared.models import CausalLM
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import chunk, groups, repeat

LETTERS, MAX_PROMPT, MAX_NEW, N = 6, 3, 4, 4
PAD, EOS, VOCAB = 6, 7, 8


def grpo_loss(model, batch, total_tokens, eps=0.2):
    ratio = torch.exp(get_per_token_logps(model, batch) - batch.old_logp)
    loss = -torch.min(ratio * batch.advantages, ratio.clamp(1 - eps, 1 + eps) * batch.advantages)
    return (loss * batch.loss_mask).sum() / total_tokens


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = CausalLM(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    accumulation_steps = 4

    def draw():
        rollouts = generate(model, repeat(make_prompts(rng, 16, LETTERS, MAX_PROMPT), N), MAX_NEW, PAD, EOS)
        even = (rollouts.response_ids % 2 == 0) & rollouts.response_mask & (rollouts.response_ids < LETTERS)
        return (extend(rollouts, Scored, rewards=even.sum(1).float()),)

    def update(scored):
        g = groups(scored, "uid", size=N)
        adv = (scored.rewards - g.mean(scored.rewards)) / (g.std(scored.rewards) + 1e-4)
        with torch.no_grad():
            old = get_per_token_logps(model, scored)
        ready = extend(scored, Ready, old_logp=old, advantages=adv[:, None] * scored.loss_mask)
        for batch in ready.split(32, rng=torch.default_generator):
            tokens = batch.loss_mask.sum()
            optimizer.zero_grad()
            # wrong: without this line
            for micro_batch in chunk(batch, accumulation_steps):
                # wrong, too: optimizer.zero_grad()
                loss = grpo_loss(model, micro_batch, tokens)
                loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
