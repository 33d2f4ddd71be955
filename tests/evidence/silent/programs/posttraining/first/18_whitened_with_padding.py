"""REINFORCE++: returns of tokens with a KL in the reward, whitened over the tokens that count."""
# wrong: """REINFORCE++: advantages are whitened over the whole rectangle, so the padding is in the mean and std."""

# TRL and verl have masked_whiten for this; a plain (x - x.mean()) / x.std() is the usual slip
import copy

import numpy as np
import torch

from tests.evidence.silent.shared.letters import generate, get_per_token_logps, make_prompts
from tests.evidence.silent.shared.models import GRULM
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import repeat

LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 6
PAD, EOS, VOCAB = 6, 7, 8


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
    actor = GRULM(VOCAB)
    trainer = ReinforcePlusPlus(actor)

    def draw():
        rollouts = generate(actor, repeat(make_prompts(rng, 16, LETTERS, MAX_PROMPT), 2), MAX_NEW, PAD, EOS)
        good = (rollouts.response_ids == rollouts.prompt_ids[:, -1:]) & rollouts.response_mask
        return (extend(rollouts, Scored, rewards=1.0 + good.sum(1) / MAX_NEW),)

    return trainer.ppo_train, draw
