"""REINFORCE with a learned value of the prompt as the baseline."""
# wrong: """REINFORCE: values (N, 1) minus rewards (N,) is (N, N), so each value is fitted to the mean of all rewards."""

# ms-swift PR 9927 is the same with rewards (B, 1) and margins (B,)
import numpy as np
import torch
from torch import nn

from tests.evidence.silent.shared.letters import generate, get_per_token_logps, make_prompts
from tests.evidence.silent.shared.models import GRULM
from typedbatch import extend
from typedbatch.posttraining import Scored

LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 4
PAD, EOS, VOCAB = 6, 7, 8


class PolicyWithValue(GRULM):
    def __init__(self):
        super().__init__(VOCAB)
        self.value_head = nn.Linear(24, 1)

    def value(self, prompts):
        return self.value_head(self.states(prompts.prompt_ids, prompts.prompt_mask)[:, -1].detach())


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    agent = PolicyWithValue()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)

    def draw():
        rollouts = generate(agent, make_prompts(rng, 32, LETTERS, MAX_PROMPT), MAX_NEW, PAD, EOS)
        first = rollouts.prompt_ids[:, -1]
        hits = ((rollouts.response_ids == first[:, None]) & rollouts.response_mask).sum(1)
        return (extend(rollouts, Scored, rewards=hits / MAX_NEW + first / LETTERS),)

    def update(scored):
        value = agent.value(scored).squeeze(-1)
        # wrong: value = agent.value(scored)
        value_loss = (value - scored.rewards).square().mean()
        advantages = scored.rewards - value.detach().flatten()
        sequence_logp = (get_per_token_logps(agent, scored) * scored.loss_mask).sum(1)
        loss = -(advantages * sequence_logp).mean() + 0.5 * value_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
