"""PPO over tokens with a value head on the policy; one optimizer for all of it."""
# wrong: """PPO over tokens: the optimizer is made before the value head is put on the model, so the head keeps its random weights."""
import numpy as np
import torch
from torch import nn

from tests.evidence.silent.shared.letters import generate, make_prompts
from tests.evidence.silent.shared.models import GRULM
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored

LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 5
PAD, EOS, VOCAB = 6, 7, 8


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
    model = GRULM(VOCAB)
    trainer = PPOTrainer(model)

    def draw():
        rollouts = generate(model, make_prompts(rng, 32, LETTERS, MAX_PROMPT), MAX_NEW, PAD, EOS)
        rewards = ((rollouts.response_ids == rollouts.prompt_ids[:, -1:]) & rollouts.response_mask).sum(1).float()
        return (extend(rollouts, Scored, rewards=rewards),)

    return trainer.step, draw
