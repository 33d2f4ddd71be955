"""GRPO: old log-probs are computed when they are needed, from a snapshot of the weights that sampled."""
# wrong: """GRPO: the snapshot of the old weights holds the parameters themselves, so the ratio is always 1 and never clipped."""

# state_dict() returns references: pytorch.org, "Saving and loading models"; they change in the next step
import torch
from torch.func import functional_call

from tests.evidence.silent.shared.digits import RESPONSE, VOCAB, PromptSet, generate, response_logps
from tests.evidence.silent.shared.models import Window
from typedbatch import extend
from typedbatch.posttraining import Scored
from typedbatch.rows import groups, repeat

GROUP, EPOCHS, CLIP = 6, 4, 0.2


class OldPolicy:
    """The policy with the weights it had, without a second module."""

    def __init__(self, policy):
        self.policy = policy
        self.weights = {name: weight.clone() for name, weight in policy.state_dict().items()}
        # wrong: self.weights = dict(policy.state_dict())

    def __call__(self, ids, mask):
        return functional_call(self.policy, self.weights, (ids, mask))


def reward(rollouts):
    """The share of steps up by one."""
    steps = (rollouts.response_ids[:, 1:] - rollouts.response_ids[:, :-1]) == 1
    steps = steps & rollouts.response_mask[:, 1:]
    return extend(rollouts, Scored, rewards=steps.sum(1) / (RESPONSE - 1))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    prompts, policy = PromptSet(seed), Window(VOCAB)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)

    def draw():
        return (reward(generate(policy, repeat(prompts.next(12), GROUP))),)

    def update(scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        old_policy = OldPolicy(policy)
        for _ in range(EPOCHS):
            for rows in torch.randperm(len(scored)).split(24):
                part, advantage = scored[rows], advantages[rows, None]
                with torch.no_grad():
                    old_logps = response_logps(old_policy, part)
                ratio = torch.exp(response_logps(policy, part) - old_logps)
                gain = torch.minimum(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage)
                loss = -(gain * part.loss_mask).sum() / part.loss_mask.sum()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
