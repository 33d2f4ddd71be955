"""GRPO with the k3 estimate of the KL to a reference in the loss."""
# wrong: """GRPO: the KL term is computed from detached log-probs, so it is logged and never pulls the policy back."""
import copy

import torch

from tests.evidence.silent.shared.digits import draw_prompts, sample, token_logp as logp
from tests.evidence.silent.shared.models import Policy
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

DIGITS, PROMPT, RESPONSE = 6, 3, 4
VOCAB = DIGITS + 2
GROUP, CLIP, BETA = 6, 0.2, 0.1


def score(rollouts):
    rising = (rollouts.response_ids[:, 1:] > rollouts.response_ids[:, :-1]) & rollouts.response_mask[:, 1:]
    return extend(rollouts, Scored, rewards=rising.sum(1).float())


def masked_mean(x, mask):
    return (x * mask).sum() / mask.sum()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy = Policy(VOCAB)
    reference = copy.deepcopy(policy)
    for parameter in reference.parameters():
        parameter.requires_grad_(False)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    metrics = {}

    def loss_fn(batch):
        log_prob = logp(policy, batch)
        log_ratio = log_prob - batch.old_logp
        ratio = log_ratio.exp()
        pg_loss = masked_mean(
            -torch.min(ratio * batch.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * batch.advantages), batch.loss_mask
        )
        delta = batch.ref_logp - log_prob
        # wrong: delta = batch.ref_logp - log_prob.detach()
        kl = masked_mean(delta.exp() - delta - 1, batch.loss_mask)
        metrics.update(pg=pg_loss.item(), kl=kl.item())
        return pg_loss + BETA * kl

    def update(scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        with torch.no_grad():
            old, ref = logp(policy, scored), logp(reference, scored)
        ready = extend(scored, Ready, old_logp=old, ref_logp=ref, advantages=advantages[:, None] * scored.loss_mask)
        for _ in range(3):
            optimizer.zero_grad()
            loss_fn(ready).backward()
            optimizer.step()
        return scored.rewards.mean().item()

    return update, lambda: (score(sample(policy, repeat(draw_prompts(8, DIGITS, (2, PROMPT)), GROUP), RESPONSE, DIGITS)),)
