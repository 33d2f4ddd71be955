"""GRPO with sampling at a temperature of 0.6, which all log-probs take into account."""
# wrong: """GRPO: rollouts are sampled at temperature 0.6, and the log-probs in the loss are those of temperature 1."""

# TRL PR 3029, slime PR 557, NeMo-RL PR 935: temperature was not applied to the logits of the trainer
import copy

import numpy as np
import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
LETTERS, MAX_PROMPT, MAX_NEW = 7, 3, 5
PAD, EOS, VOCAB = 7, 8, 9


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


def make_prompts(rng: np.random.Generator, n: int) -> Prompts:
    """Prompts of 1 to MAX_PROMPT letters, padded on the left."""
    rows = [rng.integers(0, LETTERS, size=rng.integers(1, MAX_PROMPT + 1)).tolist() for _ in range(n)]
    ids = torch.tensor([[PAD] * (MAX_PROMPT - len(r)) + r for r in rows])
    mask = torch.tensor([[False] * (MAX_PROMPT - len(r)) + [True] * len(r) for r in rows])
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(f"q{rng.integers(1 << 40)}" for _ in rows))


@torch.no_grad()
def generate(policy, prompts: Prompts, temperature: float = 1.0) -> Rollouts:
    """Sample until EOS or MAX_NEW tokens, and keep the sampler's log-probs."""
    policy.eval()
    n = len(prompts)
    input_ids, attention_mask = prompts.prompt_ids, prompts.prompt_mask
    unfinished = torch.ones(n, dtype=torch.bool)
    logps = []
    for _ in range(MAX_NEW):
        dist = torch.distributions.Categorical(logits=policy(input_ids, attention_mask)[:, -1] / temperature)
        tok = dist.sample()
        logps.append(dist.log_prob(tok) * unfinished)
        tok = torch.where(unfinished, tok, torch.full_like(tok, PAD))
        input_ids = torch.cat([input_ids, tok.unsqueeze(1)], dim=1)
        attention_mask = torch.cat([attention_mask, unfinished.unsqueeze(1)], dim=1)
        unfinished = unfinished & tok.ne(EOS)
    policy.train()
    p = prompts.prompt_ids.shape[1]
    response_mask = attention_mask[:, p:]
    return extend(
        prompts,
        Rollouts,
        response_ids=input_ids[:, p:],
        response_mask=response_mask,
        loss_mask=response_mask.clone(),
        rollout_logp=torch.stack(logps, dim=1),
        response_length=response_mask.sum(1),
        truncated=unfinished,
    )


class Config:
    num_generations = 6
    temperature = 0.6
    beta = 0.02
    epsilon = 0.2
    num_iterations = 2
    learning_rate = 5e-3


class GRPOTrainer:
    def __init__(self, model, args):
        self.model, self.args = model, args
        self.ref_model = copy.deepcopy(model).requires_grad_(False)
        self.optimizer = torch.optim.Adam(model.parameters(), lr=args.learning_rate)

    def per_token_logps(self, model, batch):
        input_ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
        attention_mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
        logits = model(input_ids, attention_mask)[:, :-1]
        logits = logits[:, -batch.response_ids.size(1) :]
        logits = logits / self.args.temperature
        # wrong: without this line
        logps = logits.log_softmax(-1).gather(2, batch.response_ids.unsqueeze(2)).squeeze(2)
        return logps * batch.response_mask

    def generate_and_score(self, prompts):
        rollouts = generate(self.model, repeat(prompts, self.args.num_generations), self.args.temperature)
        even = (rollouts.response_ids % 2 == 0) & rollouts.response_mask
        return extend(rollouts, Scored, rewards=even.sum(1) / rollouts.response_mask.sum(1))

    @torch.no_grad()
    def prepare(self, scored):
        g = groups(scored, "uid", size=self.args.num_generations)
        adv = (scored.rewards - g.mean(scored.rewards)) / (g.std(scored.rewards) + 1e-4)
        return extend(
            scored,
            Ready,
            old_logp=self.per_token_logps(self.model, scored),
            ref_logp=self.per_token_logps(self.ref_model, scored),
            advantages=adv[:, None] * scored.loss_mask,
        )

    def compute_loss(self, batch):
        logps = self.per_token_logps(self.model, batch)
        delta = batch.ref_logp - logps
        kl = delta.exp() - delta - 1
        ratio = torch.exp(logps - batch.old_logp)
        clipped = ratio.clamp(1 - self.args.epsilon, 1 + self.args.epsilon)
        loss = -torch.min(ratio * batch.advantages, clipped * batch.advantages) + self.args.beta * kl
        return (loss * batch.loss_mask).sum() / batch.loss_mask.sum()

    def training_step(self, scored):
        batch = self.prepare(scored)
        for _ in range(self.args.num_iterations):
            loss = self.compute_loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    trainer = GRPOTrainer(Policy(), Config())
    return trainer.training_step, lambda: (trainer.generate_and_score(make_prompts(rng, 8)),)


def stages(seed: int = 0):
    torch.manual_seed(seed)
    trainer = GRPOTrainer(Policy(), Config())
    rollouts = trainer.generate_and_score(make_prompts(np.random.default_rng(seed), 8))
    return {"logp": (trainer.per_token_logps, trainer.model, rollouts)}
