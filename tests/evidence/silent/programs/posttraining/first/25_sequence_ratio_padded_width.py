"""GSPO: one ratio per sequence, the geometric mean over its tokens."""
# wrong: """GSPO: the mean of the log-ratio is over the padded width, so the log-probs of padding are in it and short rows are damped."""
import torch

from tests.evidence.silent.shared.digits import draw_prompts, sample
from tests.evidence.silent.shared.models import Policy
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

DIGITS, PROMPT, RESPONSE = 5, 4, 6
VOCAB = DIGITS + 2
GROUP = 6


def token_logps(policy, batch):
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    logits = policy(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))[:, PROMPT - 1 : -1]
    return logits.log_softmax(-1).gather(-1, batch.response_ids.unsqueeze(-1)).squeeze(-1)


class GSPO:
    def __init__(self, clip=0.05, lr=5e-3, epochs=3):
        self.policy, self.clip, self.epochs = Policy(VOCAB), clip, epochs
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=lr)

    def rollouts(self):
        rollouts = sample(self.policy, repeat(draw_prompts(8, DIGITS, (2, PROMPT)), GROUP), RESPONSE, DIGITS)
        # the last digit of the prompt, and then stop: short responses are wanted
        starts = (rollouts.response_ids[:, 0] == rollouts.prompt_ids[:, -1]).float()
        return (extend(rollouts, Scored, rewards=starts + 1.0 / rollouts.response_mask.sum(1)),)

    @torch.no_grad()
    def experience(self, scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        return extend(
            scored, Ready, old_logp=token_logps(self.policy, scored), advantages=advantages[:, None] * scored.loss_mask
        )

    def loss(self, batch):
        log_ratio = token_logps(self.policy, batch) - batch.old_logp
        lengths = batch.loss_mask.sum(-1)
        # wrong: log_ratio = log_ratio.mean(-1)
        log_ratio = (log_ratio * batch.loss_mask).sum(-1) / lengths
        # wrong: without this line
        ratio = log_ratio.exp()
        advantage = batch.advantages[:, 0]
        return -torch.min(ratio * advantage, ratio.clamp(1 - self.clip, 1 + self.clip) * advantage).mean()

    def update(self, scored):
        experience = self.experience(scored)
        for _ in range(self.epochs):
            for part in experience.split(24, rng=torch.default_generator):
                self.opt.zero_grad()
                self.loss(part).backward()
                self.opt.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    algorithm = GSPO()
    return algorithm.update, algorithm.rollouts
