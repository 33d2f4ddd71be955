"""GRPO with a rule's reward; the rewards are viewed as (prompts, samples) to normalize them."""
# wrong: """GRPO: rewards of rows a a b b are viewed as (samples, prompts), so mean and std are over rows of different prompts."""

# XU-YIJIE/grpo-flat issue 2: the statistics over another axis than that of the group
from uuid import uuid4

import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 4, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
PROMPTS, SAMPLES = 6, 8


class GRULM(nn.Module):
    """A recurrent language model; where there is padding its state is carried over."""

    def __init__(self, hidden=24):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.head = nn.Linear(hidden, VOCAB)

    def states(self, input_ids, attention_mask):
        x = self.embed(input_ids)
        h, states = x.new_zeros(len(x), x.shape[-1]), []
        for t in range(x.shape[1]):
            h = torch.where(attention_mask[:, t, None], self.cell(x[:, t], h), h)
            states.append(h)
        return torch.stack(states, 1)

    def forward(self, input_ids, attention_mask):
        return self.head(self.states(input_ids, attention_mask))


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


class GRPO:
    def __init__(self, lr=1e-2, clip_low=0.2, clip_high=0.28):
        self.model = GRULM()
        self.low, self.high = 1 - clip_low, 1 + clip_high
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=0.0)

    def collect(self):
        rollouts = sample(self.model, repeat(draw_prompts(PROMPTS), SAMPLES))
        lengths = rollouts.response_mask.sum(1)
        wanted = rollouts.prompt_mask.sum(1)  # as many tokens as the prompt has
        return (extend(rollouts, Scored, rewards=1.0 - (lengths - wanted).abs() / RESPONSE),)

    def advantages(self, rewards):
        table = rewards.view(-1, SAMPLES)
        # wrong: table = rewards.view(SAMPLES, -1)
        table = (table - table.mean(1, keepdim=True)) / (table.std(1, keepdim=True) + 1e-6)
        # wrong: table = (table - table.mean(0)) / (table.std(0) + 1e-6)
        return table.flatten()

    def update(self, scored):
        with torch.no_grad():
            old_logp = logp(self.model, scored)
        advantages = self.advantages(scored.rewards).unsqueeze(1) * scored.loss_mask
        batch = extend(scored, Ready, old_logp=old_logp, advantages=advantages)
        for _ in range(2):
            for part in batch.split(24, rng=torch.default_generator):
                self.step(part)
        return scored.rewards.mean().item()

    def step(self, part):
        ratio = (logp(self.model, part) - part.old_logp).exp()
        surrogate = torch.min(ratio * part.advantages, ratio.clamp(self.low, self.high) * part.advantages)
        self.optimizer.zero_grad()
        (-(surrogate * part.loss_mask).sum() / part.loss_mask.sum()).backward()
        self.optimizer.step()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = GRPO()
    return trainer.update, trainer.collect
