"""GRPO with accumulation: a step after every four micro-batches, and one after those that are left."""
# wrong: """GRPO: six micro-batches in steps of four, so two are never stepped and their gradients leak into the next rollout."""

# transformers and accelerate: the last, incomplete accumulation of an epoch
import torch
from torch import nn

from tests.evidence.silent.shared.digits import RESPONSE, VOCAB, draw_prompts, score
from tests.evidence.silent.shared.models import GPT
from tests.evidence.silent.shared.positioned import generate, token_logp
from typedbatch import extend
from typedbatch.posttraining import Ready
from typedbatch.rows import groups, repeat

GROUP, MICRO, ACCUMULATE = 6, 8, 4


class Trainer:
    def __init__(self, model, lr=0.1):
        self.model, self.optimizer = model, torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    def micro_loss(self, micro):
        """Over a constant number of tokens, as in Dr. GRPO."""
        ratio = (token_logp(self.model, micro) - micro.old_logp).exp()
        gain = torch.min(ratio * micro.advantages, ratio.clamp(0.8, 1.2) * micro.advantages)
        return -(gain * micro.loss_mask).sum() / (MICRO * ACCUMULATE * RESPONSE)

    def update(self, scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards))[:, None] * scored.loss_mask
        with torch.no_grad():
            ready = extend(scored, Ready, old_logp=token_logp(self.model, scored), advantages=advantages)
        micros = list(ready.split(MICRO, rng=torch.default_generator))
        for count, micro in enumerate(micros, 1):
            self.micro_loss(micro).backward()
            if count % ACCUMULATE == 0 or count == len(micros):
            # wrong: if count % ACCUMULATE == 0:
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
                self.optimizer.zero_grad()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = Trainer(GPT(VOCAB))

    def draw():
        return (score(generate(trainer.model, repeat(draw_prompts(8), GROUP))),)

    return trainer.update, draw
