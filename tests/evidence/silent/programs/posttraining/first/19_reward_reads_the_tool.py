"""Multi-turn GRPO with a calculator: the reward looks for the result in what the model wrote after the tool."""
# wrong: """Multi-turn GRPO: the reward looks for the result in the whole response, where the tool has already written it."""

# in search agents, a match over the full text also finds what was retrieved
import numpy as np
import torch

from tests.evidence.silent.shared.digits import rollout
from tests.evidence.silent.shared.letters import get_per_token_logps
from tests.evidence.silent.shared.models import Policy
from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

DIGITS, PROMPT, CALL, ANSWER = 7, 2, 2, 3
VOCAB = DIGITS + 2
GROUP = 8


def tool(call):
    """The sum and the product of the two tokens of the call."""
    return torch.stack([call.sum(1) % DIGITS, call.prod(1) % DIGITS], 1)


def draw_prompts(rng, n):
    ids = torch.from_numpy(rng.integers(0, DIGITS, (n, PROMPT)))
    return Prompts(prompt_ids=ids, prompt_mask=torch.ones_like(ids).bool(), uid=objects(str(rng.integers(1 << 40)) for _ in ids))


def exact_match(rollouts: Rollouts) -> Scored:
    """Is the sum of the prompt in the answer?"""
    gold = rollouts.prompt_ids.sum(1, keepdim=True) % DIGITS
    written = rollouts.loss_mask & (torch.arange(rollouts.response_ids.shape[1]) >= CALL)
    # wrong: written = rollouts.response_mask & (torch.arange(rollouts.response_ids.shape[1]) >= CALL)
    return extend(rollouts, Scored, rewards=((rollouts.response_ids == gold) & written).any(1).float())


class Trainer:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.model = Policy(VOCAB)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)

    def collect(self):
        prompts = repeat(draw_prompts(self.rng, 8), GROUP)
        return (exact_match(rollout(self.model, prompts, tool, CALL, ANSWER, DIGITS)),)

    def update(self, scored):
        g = groups(scored, "uid", size=GROUP)
        adv = (scored.rewards - g.mean(scored.rewards)) / (g.std(scored.rewards) + 1e-6)
        with torch.no_grad():
            old = get_per_token_logps(self.model, scored)
        ready = extend(scored, Ready, old_logp=old, advantages=adv[:, None] * scored.loss_mask)
        for _ in range(2):
            ratio = torch.exp(get_per_token_logps(self.model, ready) - ready.old_logp)
            loss = torch.max(-ready.advantages * ratio, -ready.advantages * ratio.clamp(0.8, 1.2))
            self.optimizer.zero_grad()
            loss[ready.loss_mask].mean().backward()
            self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    trainer = Trainer(seed)
    return trainer.update, trainer.collect


def stages(seed: int = 0):
    torch.manual_seed(seed)
    prompts = repeat(draw_prompts(np.random.default_rng(seed), 4), GROUP)
    return {"reward": (exact_match, rollout(Policy(VOCAB), prompts, tool, CALL, ANSWER, DIGITS))}
