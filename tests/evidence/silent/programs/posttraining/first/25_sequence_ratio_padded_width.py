"""GSPO: one ratio per sequence, the geometric mean over its tokens."""
# wrong: """GSPO: the mean of the log-ratio is over the padded width, so the log-probs of padding are in it and short rows are damped."""

from uuid import uuid4

import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 4, 6
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP = 6


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


def token_logps(policy, batch):
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    logits = policy(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))[:, PROMPT - 1 : -1]
    return logits.log_softmax(-1).gather(-1, batch.response_ids.unsqueeze(-1)).squeeze(-1)


class GSPO:
    def __init__(self, clip=0.05, lr=5e-3, epochs=3):
        self.policy, self.clip, self.epochs = Policy(), clip, epochs
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=lr)

    def rollouts(self):
        rollouts = sample(self.policy, repeat(draw_prompts(8), GROUP))
        # the last digit of the prompt, and then stop: short responses are wanted
        starts = (rollouts.response_ids[:, 0] == rollouts.prompt_ids[:, -1]).float()
        return (extend(rollouts, Scored, rewards=starts + 1.0 / rollouts.response_mask.sum(1)),)

    @torch.no_grad()
    def experience(self, scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        return extend(
            scored, Ready, old_logp=token_logps(self.policy, scored), advantages=advantages[:, None] * scored.loss_mask
        )

    def loss(self, batch):
        log_ratio = token_logps(self.policy, batch) - batch.old_logp
        lengths = batch.loss_mask.sum(-1)
        # wrong: log_ratio = log_ratio.mean(-1)
        log_ratio = (log_ratio * batch.loss_mask).sum(-1) / lengths
        # wrong: without this line
        ratio = log_ratio.exp()
        advantage = batch.advantages[:, 0]
        return -torch.min(ratio * advantage, ratio.clamp(1 - self.clip, 1 + self.clip) * advantage).mean()

    def update(self, scored):
        experience = self.experience(scored)
        for _ in range(self.epochs):
            for part in experience.split(24, rng=torch.default_generator):
                self.opt.zero_grad()
                self.loss(part).backward()
                self.opt.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    algorithm = GSPO()
    return algorithm.update, algorithm.rollouts
