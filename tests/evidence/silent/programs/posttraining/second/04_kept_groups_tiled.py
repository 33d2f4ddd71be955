"""DAPO: groups whose samples all have the same reward are filtered out, then advantages, clip-higher and token mean."""
# wrong: """DAPO: the mask of kept groups is tiled to rows as a b a b, and the rows are a a b b: other groups are filtered out."""
import torch

from tests.evidence.silent.shared.digits import VOCAB, PromptSet, generate, response_logps
from tests.evidence.silent.shared.models import Window
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

GROUP, CLIP_LOW, CLIP_HIGH = 6, 0.2, 0.28


def verify(rollouts):
    """1 if the response begins with the last digit of the prompt and repeats it, else 0."""
    head = rollouts.response_ids[:, :2] == rollouts.prompt_ids[:, -1:]
    return extend(rollouts, Scored, rewards=head.all(1).float())


def dynamic_sampling(scored):
    """Without the groups that have nothing to tell."""
    table = scored.rewards.view(-1, GROUP)
    keep = table.std(1) > 0
    return scored[keep.repeat_interleave(GROUP)]
    # wrong: return scored[keep.repeat(GROUP)]


class DAPO:
    def __init__(self, policy, lr):
        self.policy = policy
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=lr)

    @torch.no_grad()
    def with_advantages(self, scored):
        by_prompt = groups(scored, "uid")
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-6)
        old = response_logps(self.policy, scored)
        return extend(scored, Ready, old_logp=old, advantages=advantages[:, None] * scored.loss_mask)

    def update(self, scored):
        kept = dynamic_sampling(scored)
        if len(kept) == 0:
            return 0.0
        for batch in self.with_advantages(kept).split(24, rng=torch.default_generator):
            ratio = torch.exp(response_logps(self.policy, batch) - batch.old_logp)
            clipped = torch.clamp(ratio, 1 - CLIP_LOW, 1 + CLIP_HIGH)
            losses = -torch.min(ratio * batch.advantages, clipped * batch.advantages)
            loss = losses[batch.loss_mask].mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    prompts, algorithm = PromptSet(seed), DAPO(Window(VOCAB), lr=5e-3)

    def draw():
        return (verify(generate(algorithm.policy, repeat(prompts.next(16), GROUP))),)

    return algorithm.update, draw
