"""PPO over tokens: KL as a reward of each token, the score at the last one, GAE, a critic."""
# wrong: """PPO over tokens: the score is broadcast to every token, so the return is the score times the tokens that are left."""
import copy

import torch
from torch import nn

from tests.evidence.silent.shared.digits import VOCAB, draw_prompts, generate, score, token_logp
from tests.evidence.silent.shared.models import Recurrent
from typedbatch import extend
from typedbatch.posttraining import Ready

KL, LAMBDA, CLIP, EPOCHS = 0.02, 0.95, 0.2, 2


class Critic(Recurrent):
    def __init__(self):
        super().__init__(VOCAB)
        self.head = nn.Linear(self.width, 1)

    def forward(self, ids, mask):
        return self.head(self.states(ids, mask)).squeeze(-1)


def token_values(critic, batch):
    """The value before each token of the response (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    return critic(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1] * batch.response_mask


def token_rewards(scored, logp, ref_logp):
    penalty = -KL * (logp - ref_logp)
    is_last = torch.arange(penalty.shape[1]) == scored.response_length[:, None] - 1
    # wrong: return (scored.rewards[:, None] + penalty) * scored.response_mask
    return (scored.rewards[:, None] * is_last + penalty) * scored.response_mask
    # wrong: without this line


def gae(rewards, values, mask):
    advantages, running = torch.zeros_like(rewards), torch.zeros(len(rewards))
    after = torch.cat([values[:, 1:], torch.zeros(len(values), 1)], 1)
    for t in reversed(range(rewards.shape[1])):
        running = (rewards[:, t] + after[:, t] - values[:, t] + LAMBDA * running) * mask[:, t]
        advantages[:, t] = running
    return advantages


@torch.no_grad()
def prepare(actor, critic, reference, scored):
    logp, ref_logp, values = token_logp(actor, scored), token_logp(reference, scored), token_values(critic, scored)
    mask = scored.loss_mask
    raw = gae(token_rewards(scored, logp, ref_logp), values, mask)
    advantages = (raw - raw[mask].mean()) / (raw[mask].std() + 1e-8) * mask
    more = {"ref_logp": ref_logp, "values": values, "returns": raw + values}
    return extend(scored, Ready, old_logp=logp, advantages=advantages, **more)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    actor, critic = Recurrent(VOCAB), Critic()
    reference = copy.deepcopy(actor).requires_grad_(False)
    optimizer = torch.optim.Adam([{"params": actor.parameters()}, {"params": critic.parameters(), "lr": 1e-2}], lr=4e-3)

    def draw():
        return (score(generate(actor, draw_prompts(48))),)

    def update(scored):
        ready = prepare(actor, critic, reference, scored)
        for _ in range(EPOCHS):
            for part in ready.split(16, rng=torch.default_generator):
                ratio = (token_logp(actor, part) - part.old_logp).exp()
                gain = torch.min(ratio * part.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * part.advantages)
                error = (token_values(critic, part) - part.returns).square()
                loss = (0.5 * error - gain)[part.loss_mask].mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
