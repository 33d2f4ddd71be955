"""DAPO: groups without variance are dropped, truncated rows stay in the group's mean and leave the loss, clip-higher."""

# arXiv:2503.14476: dynamic sampling, overlong filtering, token mean over what is left
import torch
from torch import nn

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts
from tests.evidence.silent.shared.models import GPT
from tests.evidence.silent.shared.positioned import generate, token_logp
from typedbatch import cat, extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

GROUP, WANTED, TRIES, CLIP_LOW, CLIP_HIGH = 6, 8, 4, 0.2, 0.28


def verify(rollouts):
    """1 if the response begins with the last digit of the prompt, else 0."""
    return extend(rollouts, Scored, rewards=(rollouts.response_ids[:, 0] == rollouts.prompt_ids[:, -1]).float())


def informative(scored):
    return scored[groups(scored, "uid", size=GROUP).std(scored.rewards) > 0]


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = GPT(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def draw():
        """Samples until there are enough groups to learn from, or it has tried often enough."""
        kept, rewards = [], []
        for _ in range(TRIES):
            scored = verify(generate(model, repeat(draw_prompts(12), GROUP)))
            rewards.append(scored.rewards.mean().item())
            kept.append(informative(scored))
            if sum(map(len, kept)) >= WANTED * GROUP:
                break
        return cat(kept)[: WANTED * GROUP], rewards[0]

    def update(scored, mean_reward):
        if len(scored) == 0:
            return mean_reward
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-6)
        scored.loss_mask = scored.loss_mask & ~scored.truncated[:, None]
        with torch.no_grad():
            old_logp = token_logp(model, scored)
        ready = extend(scored, Ready, old_logp=old_logp, advantages=advantages[:, None] * scored.loss_mask)
        for part in ready.split(24, rng=torch.default_generator):
            ratio = (token_logp(model, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH) * part.advantages)
            loss = -(gain * part.loss_mask).sum() / part.loss_mask.sum().clamp(min=1)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return mean_reward

    return update, draw
