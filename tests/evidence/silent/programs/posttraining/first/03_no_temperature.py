"""GRPO with sampling at a temperature of 0.6, which all log-probs take into account."""
# wrong: """GRPO: rollouts are sampled at temperature 0.6, and the log-probs in the loss are those of temperature 1."""

# TRL PR 3029, slime PR 557, NeMo-RL PR 935: temperature was not applied to the logits of the trainer
import copy

import numpy as np
import torch

from tests.evidence.silent.shared.letters import generate, make_prompts
from tests.evidence.silent.shared.models import Policy
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

LETTERS, MAX_PROMPT, MAX_NEW = 7, 3, 5
PAD, EOS, VOCAB = 7, 8, 9


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
        rollouts = generate(
            self.model, repeat(prompts, self.args.num_generations), MAX_NEW, PAD, EOS, self.args.temperature
        )
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
    trainer = GRPOTrainer(Policy(VOCAB), Config())
    return trainer.training_step, lambda: (trainer.generate_and_score(make_prompts(rng, 8, LETTERS, MAX_PROMPT)),)


def stages(seed: int = 0):
    torch.manual_seed(seed)
    trainer = GRPOTrainer(Policy(VOCAB), Config())
    rollouts = trainer.generate_and_score(make_prompts(np.random.default_rng(seed), 8, LETTERS, MAX_PROMPT))
    return {"logp": (trainer.per_token_logps, trainer.model, rollouts)}
