"""GRPO: trainer and sampler both count positions over the tokens only, so padding on the left moves nothing."""
# wrong: """GRPO: the trainer counts positions from the left edge, padding included; the sampler counts tokens only."""

# transformers makes position_ids = arange unless they are passed; generate() makes them from the attention mask
import torch
from torch import nn

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, score
from tests.evidence.silent.shared.models import GPT
from tests.evidence.silent.shared.positioned import generate, positions
from typedbatch import extend
from typedbatch.posttraining import Ready
from typedbatch.rows import groups, repeat

GROUP, EPOCHS, CLIP = 6, 2, 0.2


def token_logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask, positions(mask))[:, batch.prompt_ids.shape[1] - 1 : -1]
    # wrong: before = model(ids, mask, torch.arange(ids.shape[1]).expand_as(ids))[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


class GRPOTrainer:
    def __init__(self, model, lr=3e-3):
        self.model, self.optimizer = model, torch.optim.Adam(model.parameters(), lr=lr)

    @torch.no_grad()
    def prepare(self, scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        old_logp = token_logp(self.model, scored)
        return extend(scored, Ready, old_logp=old_logp, advantages=advantages[:, None] * scored.loss_mask)

    def loss(self, batch):
        ratio = (token_logp(self.model, batch) - batch.old_logp).exp()
        gain = torch.min(ratio * batch.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * batch.advantages)
        return -gain[batch.loss_mask].mean()

    def update(self, scored):
        ready = self.prepare(scored)
        for _ in range(EPOCHS):
            for part in ready.split(32, rng=torch.default_generator):
                self.optimizer.zero_grad()
                self.loss(part).backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = GRPOTrainer(GPT(VOCAB))

    def draw():
        return (score(generate(trainer.model, repeat(draw_prompts(16), GROUP))),)

    return trainer.update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    model = GPT(VOCAB)
    return {"logp": (token_logp, model, generate(model, repeat(draw_prompts(6), GROUP)))}
