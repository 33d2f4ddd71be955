"""GRPO: an engine of its own samples, and gets the weights of the wrapped model before each rollout."""
# wrong: """GRPO: the engine loads the weights with strict=False, and their names begin with "module.", so it never gets any."""

# names with "module." or "_orig_mod." after DDP and torch.compile; vLLM's load_weights has skipped unknown names as well
from uuid import uuid4

import torch
from torch import nn
import torch.nn.functional as F

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 6
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP, CLIP = 4, 0.2


class Decoder(nn.Module):
    """Causal attention with a bias for each distance, so it does not matter where a row begins."""

    def __init__(self, width=24, heads=2):
        super().__init__()
        self.heads = heads
        self.embed, self.distance = nn.Embedding(VOCAB, width), nn.Embedding(32, heads)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.lm_head = nn.Linear(width, VOCAB, bias=False)

    def hidden(self, ids, mask):
        size = ids.shape[1]
        place = torch.arange(size)
        gap = place[:, None] - place
        seen = (gap >= 0) & mask[:, None] | torch.eye(size, dtype=torch.bool)
        bias = self.distance(gap.clamp(0, 31)).permute(2, 0, 1).masked_fill(~seen[:, None], -1e9)
        x = self.embed(ids)
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias
        x = x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x = x + self.down(F.silu(self.up(self.norms[1](x))))
        return self.norms[2](x)

    def forward(self, ids, mask):
        return self.lm_head(self.hidden(ids, mask))


class DataParallel(nn.Module):
    """As DistributedDataParallel does it: the model is an attribute."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, ids, mask):
        return self.module(ids, mask)


def draw_prompts(count):
    lengths = torch.randint(1, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(uuid4().hex for _ in range(count)))


class Engine:
    """The sampler's own copy of the model."""

    def __init__(self, state_dict):
        self.model = Decoder().requires_grad_(False).eval()
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


def token_logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy = DataParallel(Decoder())
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
