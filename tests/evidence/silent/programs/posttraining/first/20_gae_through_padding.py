"""PPO over tokens with a critic: GAE within the tokens of a response, then clipped losses."""
# wrong: """PPO over tokens: values of padding are not zero, so GAE of the last token bootstraps from the padding after it."""

# verl PR 50, ROLL PR 447: the values were multiplied by the mask after GAE, or never
import torch
from torch import nn

from tests.evidence.silent.shared.digits import draw_prompts, sample, token_logp as logp
from tests.evidence.silent.shared.models import CausalLM
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import repeat

DIGITS, PROMPT, RESPONSE = 5, 3, 6
VOCAB = DIGITS + 2
GAMMA, LAMBDA, CLIP = 1.0, 0.95, 0.2


class Critic(CausalLM):
    def __init__(self):
        super().__init__(VOCAB)
        self.v_head = nn.Linear(16, 1)

    def forward(self, ids, mask):
        return self.v_head(self.hidden(ids, mask))[..., 0]


def values_of(critic, batch):
    """The value before each token of the response (N, R)."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    values = critic(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))
    return values[:, batch.prompt_ids.shape[1] - 1 : -1] * batch.response_mask
    # wrong: return values[:, batch.prompt_ids.shape[1] - 1 : -1]


def gae(rewards, values):
    advantages, last = torch.zeros_like(rewards), torch.zeros(len(rewards))
    after = torch.cat([values[:, 1:], torch.zeros(len(values), 1)], 1)
    deltas = rewards + GAMMA * after - values
    for t in reversed(range(rewards.shape[1])):
        last = deltas[:, t] + GAMMA * LAMBDA * last
        advantages[:, t] = last
    return advantages, advantages + values


def whiten(x, mask):
    mean = x[mask].mean()
    return (x - mean) / (x[mask].std() + 1e-8) * mask


def setup(seed: int = 0):
    torch.manual_seed(seed)
    actor, critic = CausalLM(VOCAB), Critic()
    optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=5e-3)

    def prepare(scored):
        with torch.no_grad():
            old, values = logp(actor, scored), values_of(critic, scored)
        rewards = torch.zeros_like(values)
        rewards[torch.arange(len(scored)), scored.response_mask.sum(1) - 1] = scored.rewards
        advantages, returns = gae(rewards, values)
        advantages = whiten(advantages, scored.loss_mask)
        return extend(scored, Ready, old_logp=old, values=values, advantages=advantages, returns=returns)

    def update(scored):
        ready = prepare(scored)
        for _ in range(2):
            for part in ready.split(16, rng=torch.default_generator):
                ratio = (logp(actor, part) - part.old_logp).exp()
                gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
                error = (values_of(critic, part) - part.returns).square()
                loss = (-gain + 0.5 * error)[part.loss_mask].mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return scored.rewards.mean().item()

    def draw():
        rollouts = sample(actor, repeat(draw_prompts(16, DIGITS, (2, PROMPT)), 2), RESPONSE, DIGITS)
        stops = ~rollouts.truncated & (rollouts.response_ids[:, 0] == rollouts.prompt_ids[:, -1])
        return (extend(rollouts, Scored, rewards=stops.float() + 0.1 * rollouts.response_mask.sum(1)),)

    return update, draw
