"""CISPO: the clipped ratio is a weight without gradient on the log-probs; there is no minimum, and no lower bound."""

# arXiv:2506.13585
import torch

from tests.evidence.silent.shared.digits import VOCAB, PromptSet, generate, response_logps, score
from tests.evidence.silent.shared.models import Window
from typedbatch import extend
from typedbatch.posttraining import Ready
from typedbatch.rows import groups, repeat

GROUP, EPOCHS, HIGH = 6, 2, 2.0


def cispo_loss(policy, batch):
    logps = response_logps(policy, batch)
    weight = torch.exp(logps - batch.old_logp).clamp(max=HIGH).detach()
    return -(weight * batch.advantages * logps)[batch.loss_mask].mean()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    prompts, policy = PromptSet(seed), Window(VOCAB)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)

    def draw():
        return (score(generate(policy, repeat(prompts.next(16), GROUP))),)

    def update(scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        with torch.no_grad():
            old_logp = response_logps(policy, scored)
        ready = extend(scored, Ready, old_logp=old_logp, advantages=advantages[:, None] * scored.loss_mask)
        for _ in range(EPOCHS):
            for batch in ready.split(32, rng=torch.default_generator):
                optimizer.zero_grad()
                cispo_loss(policy, batch).backward()
                optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
