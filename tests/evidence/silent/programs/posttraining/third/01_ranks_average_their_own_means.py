"""GRPO on two ranks, whose gradients are averaged as DDP does it; the loss is the mean over the tokens of all ranks."""
# wrong: """GRPO on two ranks: each divides by its own tokens, and gradients are averaged, so ranks with few tokens weigh more."""

# transformers PR 34191 and its successors: num_items_in_batch is to be gathered across devices, then multiplied by their number
import torch
from torch import nn

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, sample, token_logp
from tests.evidence.silent.shared.models import Decoder
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import chunk, groups, repeat

RESPONSE = 6
GROUP, CLIP, WORLD = 4, 0.2, 2


def score(rollouts):
    """The longer the response, the better, if it does not repeat the last digit of the prompt."""
    bad = (rollouts.response_ids == rollouts.prompt_ids[:, -1:]).sum(1)
    return extend(rollouts, Scored, rewards=0.1 * rollouts.response_mask.sum(1) - bad)


class Rank:
    """What one process does: the model is the same on all of them."""

    def __init__(self, model):
        self.model, self.params = model, list(model.parameters())

    def gradients(self, shard, tokens_of_all):
        ratio = (token_logp(self.model, shard) - shard.old_logp).exp()
        gain = torch.min(ratio * shard.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * shard.advantages)
        total = -(gain * shard.loss_mask).sum()
        loss = total * WORLD / tokens_of_all
        # wrong: loss = total / shard.loss_mask.sum()
        return torch.autograd.grad(loss, self.params)


def all_reduce_mean(gradients):
    return [torch.stack(parts).mean(0) for parts in zip(*gradients)]


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = Decoder(VOCAB)
    ranks = [Rank(model) for _ in range(WORLD)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def draw():
        return (score(sample(model, repeat(draw_prompts(12), GROUP), RESPONSE)),)

    def update(scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        with torch.no_grad():
            old = token_logp(model, scored)
        ready = extend(scored, Ready, old_logp=old, advantages=advantages[:, None] * scored.loss_mask)
        for part in ready.split(24, rng=torch.default_generator):
            shards = chunk(part, WORLD, equal=True)
            tokens = sum(shard.loss_mask.sum() for shard in shards)
            reduced = all_reduce_mean([rank.gradients(shard, tokens) for rank, shard in zip(ranks, shards)])
            for parameter, gradient in zip(model.parameters(), reduced):
                parameter.grad = gradient
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
