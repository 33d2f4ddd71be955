"""GRPO with the k3 estimate of the KL to a reference in the loss."""
# wrong: """GRPO: the KL term is computed from detached log-probs, so it is logged and never pulls the policy back."""

import copy
from uuid import uuid4

import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 6, 3, 4
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, CLIP, BETA = 6, 0.2, 0.1


class Policy(nn.Module):
    """Next token from the last token, the mean of all before it and the position: a bag of words that is causal."""

    def __init__(self, d_model=16):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, d_model)
        self.wpe = nn.Embedding(16, d_model)
        self.net = nn.Sequential(nn.Linear(3 * d_model, 32), nn.Tanh(), nn.Linear(32, VOCAB))

    def forward(self, ids, attention_mask):
        m = attention_mask.unsqueeze(-1).float()
        count = attention_mask.long().cumsum(1)
        x = self.wte(ids) * m
        mean = x.cumsum(1) / count.clamp(min=1).unsqueeze(-1)
        return self.net(torch.cat([x, mean, self.wpe((count - 1).clamp(min=0))], dim=-1))


def draw_prompts(count):
    lengths = torch.randint(2, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(str(uuid4()) for _ in range(count)))


@torch.no_grad()
def sample(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        probs = model(ids, mask)[:, -1].softmax(-1)
        token = torch.multinomial(probs, 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there, truncated=alive)


def logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    logits = model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))
    before = logits[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


def score(rollouts):
    rising = (rollouts.response_ids[:, 1:] > rollouts.response_ids[:, :-1]) & rollouts.response_mask[:, 1:]
    return extend(rollouts, Scored, rewards=rising.sum(1).float())


def masked_mean(x, mask):
    return (x * mask).sum() / mask.sum()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy = Policy()
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

    return update, lambda: (score(sample(policy, repeat(draw_prompts(8), GROUP))),)
