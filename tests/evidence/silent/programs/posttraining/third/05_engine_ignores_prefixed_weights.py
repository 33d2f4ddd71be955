"""GRPO: an engine of its own samples, and gets the weights of the wrapped model before each rollout."""
# wrong: """GRPO: the engine loads the weights with strict=False, and their names begin with "module.", so it never gets any."""

# names with "module." or "_orig_mod." after DDP and torch.compile; vLLM's load_weights has skipped unknown names as well
import torch
from torch import nn

from tests.evidence.silent.shared.digits import DIGITS, EOS, PAD, PROMPT, VOCAB, draw_prompts, token_logp
from tests.evidence.silent.shared.models import Decoder
from typedbatch import extend
from typedbatch.posttraining import Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

RESPONSE = 6
GROUP, CLIP = 4, 0.2


class DataParallel(nn.Module):
    """As DistributedDataParallel does it: the model is an attribute."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, ids, mask):
        return self.module(ids, mask)


class Engine:
    """The sampler's own copy of the model."""

    def __init__(self, state_dict):
        self.model = Decoder(VOCAB).requires_grad_(False).eval()
        self.model.load_state_dict(state_dict)

    def update_weights(self, named_tensors):
        self.model.load_state_dict(dict(named_tensors), strict=False)

    @torch.no_grad()
    def generate(self, prompts):
        ids, mask = prompts.prompt_ids, prompts.prompt_mask
        alive = torch.ones(len(prompts), dtype=torch.bool)
        for _ in range(RESPONSE):
            token = torch.multinomial(self.model(ids, mask)[:, -1].softmax(-1), 1)[:, 0].where(alive, PAD)
            ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
            alive = alive & (token != EOS)
        fields = {"response_ids": ids[:, PROMPT:], "response_mask": mask[:, PROMPT:], "truncated": alive}
        return extend(prompts, Rollouts, loss_mask=mask[:, PROMPT:].clone(), **fields)


def score(rollouts):
    """The share of tokens that are even, and 0.5 for an end."""
    even = (rollouts.response_ids % 2 == 0) & (rollouts.response_ids < DIGITS)
    return extend(rollouts, Scored, rewards=even.sum(1) / rollouts.response_mask.sum(1) + 0.5 * ~rollouts.truncated)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy = DataParallel(Decoder(VOCAB))
    engine = Engine(policy.module.state_dict())
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)

    def draw():
        engine.update_weights((name.removeprefix("module."), t) for name, t in policy.state_dict().items())
        # wrong: engine.update_weights(policy.state_dict().items())
        return (score(engine.generate(repeat(draw_prompts(16), GROUP))),)

    def update(scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        with torch.no_grad():
            old = token_logp(policy, scored)
        ready = extend(scored, Ready, old_logp=old, advantages=advantages[:, None] * scored.loss_mask)
        for part in ready.split(16, rng=torch.default_generator):
            ratio = (token_logp(policy, part) - part.old_logp).exp()
            gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
            loss = -(gain * part.loss_mask).sum() / part.loss_mask.sum()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
