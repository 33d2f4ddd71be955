"""PPO over tokens with a value head on the policy; one optimizer for all of it."""
# wrong: """PPO over tokens: the optimizer is made before the value head is put on the model, so the head keeps its random weights."""

import numpy as np
import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored

torch.set_num_threads(1)
LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 5
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


class PPOTrainer:
    def __init__(self, model, lr=5e-3, gamma=1.0, lam=0.95, cliprange=0.2, vf_coef=0.5):
        self.model = model
        self.gamma, self.lam, self.cliprange, self.vf_coef = gamma, lam, cliprange, vf_coef
        # wrong, too: self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.model.v_head = nn.Linear(24, 1)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=lr)
        # wrong: without this line

    def forward(self, batch):
        """Log-probs of the tokens of the response, and values before them."""
        ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
        states = self.model.states(ids, torch.cat([batch.prompt_mask, batch.response_mask], dim=1))
        states = states[:, MAX_PROMPT - 1 : -1]
        logps = self.model.head(states).log_softmax(-1).gather(2, batch.response_ids.unsqueeze(2)).squeeze(2)
        return logps * batch.response_mask, self.model.v_head(states).squeeze(2) * batch.response_mask

    @torch.no_grad()
    def prepare(self, scored):
        logps, values = self.forward(scored)
        rewards = torch.zeros_like(values)
        rewards.scatter_(1, scored.response_length.unsqueeze(1) - 1, scored.rewards.unsqueeze(1))
        lastgaelam, advantages_reversed = 0.0, []
        for t in reversed(range(MAX_NEW)):
            nextvalues = values[:, t + 1] if t < MAX_NEW - 1 else 0.0
            delta = rewards[:, t] + self.gamma * nextvalues - values[:, t]
            lastgaelam = delta + self.gamma * self.lam * lastgaelam
            advantages_reversed.append(lastgaelam)
        advantages = torch.stack(advantages_reversed[::-1], dim=1)
        returns = advantages + values
        mask = scored.loss_mask
        advantages = (advantages - advantages[mask].mean()) / (advantages[mask].std() + 1e-8) * mask
        return extend(scored, Ready, old_logp=logps, values=values, advantages=advantages, returns=returns)

    def loss(self, batch):
        logps, values = self.forward(batch)
        clipped = batch.values + (values - batch.values).clamp(-self.cliprange, self.cliprange)
        vf_loss = 0.5 * torch.max((values - batch.returns) ** 2, (clipped - batch.returns) ** 2)
        ratio = torch.exp(logps - batch.old_logp)
        pg_loss = torch.max(
            -batch.advantages * ratio, -batch.advantages * ratio.clamp(1 - self.cliprange, 1 + self.cliprange)
        )
        return (pg_loss + self.vf_coef * vf_loss)[batch.loss_mask].mean()

    def step(self, scored):
        batch = self.prepare(scored)
        for _ in range(3):
            for mini in batch.split(16, rng=torch.default_generator):
                self.optimizer.zero_grad()
                self.loss(mini).backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = GRULM()
    trainer = PPOTrainer(model)

    def draw():
        rollouts = generate(model, make_prompts(rng, 32))
        rewards = ((rollouts.response_ids == rollouts.prompt_ids[:, -1:]) & rollouts.response_mask).sum(1).float()
        return (extend(rollouts, Scored, rewards=rewards),)

    return trainer.step, draw
