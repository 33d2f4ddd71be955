"""Multi-turn GRPO with a tool: only the tokens of the model count in the loss."""
# wrong: """Multi-turn GRPO: the tokens of the tool are in the loss, because the mask of existing tokens is used."""
import torch

from tests.evidence.silent.shared.digits import draw_prompts, rollout, token_logp as logp
from tests.evidence.silent.shared.models import GRULM
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

DIGITS, PROMPT, CALL, ANSWER = 5, 3, 2, 3
EOS, VOCAB = DIGITS + 1, DIGITS + 2
GROUP = 8


def tool(call):
    """The sum and the difference of the two tokens of the call."""
    return torch.stack([call.sum(1) % DIGITS, (call[:, 0] - call[:, 1]) % DIGITS], 1)


def reward(rollouts):
    """1 if the answer begins with what the tool said first, and half of it for an answer that stops."""
    said = rollouts.response_ids[:, CALL]
    right = (rollouts.response_ids[:, CALL + 2] == said).float()
    stopped = (rollouts.response_ids[:, CALL + 2 :] == EOS).any(1).float()
    return extend(rollouts, Scored, rewards=right + 0.5 * stopped)


class MultiTurnGRPO:
    def __init__(self, model, lr=5e-3, clip=0.2, epochs=2):
        self.model, self.clip, self.epochs = model, clip, epochs
        self.optimizer = torch.optim.Adam(model.parameters(), lr)

    @torch.no_grad()
    def prepare(self, scored):
        by_prompt = groups(scored, "uid", size=GROUP)
        advantages = (scored.rewards - by_prompt.mean(scored.rewards)) / (by_prompt.std(scored.rewards) + 1e-4)
        advantages = advantages[:, None].expand(-1, scored.response_ids.shape[1])
        return extend(scored, Ready, old_logp=logp(self.model, scored), advantages=advantages * 1.0)

    def loss(self, batch):
        mask = batch.loss_mask
        # wrong: mask = batch.response_mask
        ratio = (logp(self.model, batch) - batch.old_logp).exp()
        gain = torch.min(ratio * batch.advantages, ratio.clamp(1 - self.clip, 1 + self.clip) * batch.advantages)
        return -(gain * mask).sum() / mask.sum()

    def update(self, scored):
        batch = self.prepare(scored)
        for _ in range(self.epochs):
            for part in batch.split(32, rng=torch.default_generator):
                self.optimizer.zero_grad()
                self.loss(part).backward()
                self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = GRULM(VOCAB)

    def draw():
        prompts = repeat(draw_prompts(8, DIGITS, (2, PROMPT)), GROUP)
        return (reward(rollout(model, prompts, tool, CALL, ANSWER, DIGITS)),)

    return MultiTurnGRPO(model).update, draw
