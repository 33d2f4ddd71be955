"""PPO over tokens: a value head on the detached states of the policy, with an optimizer and epochs of its own."""


import torch
from torch import nn

from tests.evidence.silent.shared.digits import RESPONSE, VOCAB, draw_prompts, score
from tests.evidence.silent.shared.models import GPT
from tests.evidence.silent.shared.positioned import generate, positions, token_logp
from typedbatch import extend
from typedbatch.posttraining import Ready

GAMMA, LAMBDA, CLIP, VALUE_CLIP = 1.0, 0.9, 0.2, 0.2


class ValueHead(nn.Module):
    """Reads the states of the policy and sends no gradient into them."""

    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, states):
        return self.net(states.detach())[..., 0]


def token_values(model, head, batch):
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    with torch.no_grad():
        states = model.body(ids, mask, positions(mask))[:, batch.prompt_ids.shape[1] - 1 : -1]
    return head(states) * batch.response_mask


def gae(scored, values):
    mask, running, columns = scored.loss_mask, torch.zeros(len(scored)), []
    for t in reversed(range(RESPONSE)):
        ends = scored.response_length == t + 1
        after = values[:, t + 1] if t + 1 < RESPONSE else torch.zeros(len(scored))
        delta = scored.rewards * ends + GAMMA * after * ~ends - values[:, t]
        running = torch.where(mask[:, t], delta + GAMMA * LAMBDA * running, 0.0)
        columns.append(running)
    return torch.stack(columns[::-1], 1)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model, head = GPT(VOCAB), ValueHead()
    policy_optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    value_optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)

    def draw():
        return (score(generate(model, draw_prompts(64))),)

    def value_step(part):
        values = token_values(model, head, part)
        near = part.values + (values - part.values).clamp(-VALUE_CLIP, VALUE_CLIP)
        errors = torch.max((values - part.returns).square(), (near - part.returns).square())
        value_optimizer.zero_grad()
        (0.5 * errors[part.loss_mask].mean()).backward()
        value_optimizer.step()

    def policy_step(part):
        ratio = (token_logp(model, part) - part.old_logp).exp()
        gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
        policy_optimizer.zero_grad()
        (-gain[part.loss_mask].mean()).backward()
        policy_optimizer.step()

    def update(scored):
        with torch.no_grad():
            old_logp, values = token_logp(model, scored), token_values(model, head, scored)
        raw, mask = gae(scored, values), scored.loss_mask
        advantages = torch.where(mask, (raw - raw[mask].mean()) / (raw[mask].std() + 1e-8), 0.0)
        ready = extend(scored, Ready, old_logp=old_logp, advantages=advantages, values=values, returns=raw + values)
        for part in ready.split(32, rng=torch.default_generator):
            policy_step(part)
        for _ in range(2):
            for part in ready.split(16, rng=torch.default_generator):
                value_step(part)
        return scored.rewards.mean().item()

    return update, draw
