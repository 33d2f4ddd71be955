"""REINFORCE++: returns of tokens with a KL in the reward, whitened over the tokens that count."""
# wrong: """REINFORCE++: advantages are whitened over the whole rectangle, so the padding is in the mean and std."""

# TRL and verl have masked_whiten for this; a plain (x - x.mean()) / x.std() is the usual slip
import copy

import numpy as np
import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import repeat

torch.set_num_threads(1)
LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 6
PAD, EOS, VOCAB = 6, 7, 8


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


def get_per_token_logps(model, batch):
    input_ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
    attention_mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
    logits = model(input_ids, attention_mask)[:, :-1]  # the last one predicts a token that is not there
    logits = logits[:, -batch.response_ids.size(1) :]
    logps = torch.log_softmax(logits, dim=-1)
    return torch.gather(logps, dim=2, index=batch.response_ids.unsqueeze(2)).squeeze(2) * batch.response_mask


class ReinforcePlusPlus:
    def __init__(self, actor, kl_coef=0.01, gamma=1.0, eps_clip=0.2, lr=1e-2):
        self.actor, self.kl_coef, self.gamma, self.eps_clip = actor, kl_coef, gamma, eps_clip
        self.initial = copy.deepcopy(actor).requires_grad_(False)
        self.optim = torch.optim.Adam(actor.parameters(), lr=lr)

    @torch.no_grad()
    def make_experience(self, scored: Scored) -> Ready:
        old, ref = get_per_token_logps(self.actor, scored), get_per_token_logps(self.initial, scored)
        mask = scored.loss_mask.float()
        rewards = -self.kl_coef * (old - ref) * mask
        rewards[torch.arange(len(rewards)), scored.response_length - 1] += scored.rewards
        returns, running = torch.zeros_like(rewards), torch.zeros(len(rewards))
        for t in reversed(range(rewards.shape[1])):
            running = rewards[:, t] + self.gamma * running
            returns[:, t] = running
        advantages = returns * mask
        mean = advantages.sum() / mask.sum()
        # wrong: mean = advantages.mean()
        std = (((advantages - mean).square() * mask).sum() / mask.sum()).sqrt()
        # wrong: std = advantages.std()
        advantages = (advantages - mean) / (std + 1e-8) * mask
        return extend(scored, Ready, old_logp=old, ref_logp=ref, advantages=advantages, returns=returns)

    def ppo_train(self, scored: Scored, epochs=2) -> float:
        experience = self.make_experience(scored)
        for _ in range(epochs):
            for batch in experience.split(16, rng=torch.default_generator):
                ratio = (get_per_token_logps(self.actor, batch) - batch.old_logp).exp()
                surr1 = ratio * batch.advantages
                surr2 = ratio.clamp(1 - self.eps_clip, 1 + self.eps_clip) * batch.advantages
                loss = -(torch.min(surr1, surr2) * batch.loss_mask).sum() / batch.loss_mask.sum()
                self.optim.zero_grad()
                loss.backward()
                self.optim.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    actor = GRULM()
    trainer = ReinforcePlusPlus(actor)

    def draw():
        rollouts = generate(actor, repeat(make_prompts(rng, 16), 2))
        good = (rollouts.response_ids == rollouts.prompt_ids[:, -1:]) & rollouts.response_mask
        return (extend(rollouts, Scored, rewards=1.0 + good.sum(1) / MAX_NEW),)

    return trainer.ppo_train, draw
