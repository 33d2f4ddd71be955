"""Multi-turn RLOO with a tool: the loss is summed over the model's tokens and divided by their number in the batch."""
# wrong: """Multi-turn RLOO: the loss is summed over the model's tokens and divided by the number of all, those of tools included."""

# slime PR 365: num_tokens of the per-token loss counted the tokens of tools
import torch

from tests.evidence.silent.shared.digits import draw_prompts, rollout, token_logp as logp
from tests.evidence.silent.shared.models import CausalLM
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

DIGITS, PROMPT, CALL, ANSWER = 6, 3, 2, 4
VOCAB = DIGITS + 2
GROUP, MICRO = 4, 8


def tool(call):
    """A search that gives back the call, the last token first."""
    return call.flip(1)


def judge(rollouts):
    """Return the number of tokens of the answer that are in the prompt."""
    answer = rollouts.response_ids[:, CALL + 2 :]
    found = (answer[:, :, None] == rollouts.prompt_ids[:, None]) & rollouts.prompt_mask[:, None]
    found = found.any(2) & rollouts.loss_mask[:, CALL + 2 :]
    return extend(rollouts, Scored, rewards=found.sum(1).float())


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = CausalLM(VOCAB)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)

    def update(scored):
        baseline = groups(scored, "uid", size=GROUP).leave_one_out(scored.rewards)
        with torch.no_grad():
            old = logp(model, scored)
        ready = extend(scored, Ready, old_logp=old, advantages=(scored.rewards - baseline)[:, None] * scored.loss_mask)
        num_tokens = ready.loss_mask.sum()
        # wrong: num_tokens = ready.response_mask.sum()
        optimizer.zero_grad()
        for micro in ready.split(MICRO, shuffle=False):
            per_token = -(logp(model, micro) - micro.old_logp).exp() * micro.advantages
            ((per_token * micro.loss_mask).sum() / num_tokens).backward()
        optimizer.step()
        return scored.rewards.mean().item()

    def draw():
        return (judge(rollout(model, repeat(draw_prompts(8, DIGITS, (2, PROMPT)), GROUP), tool, CALL, ANSWER, DIGITS)),)

    return update, draw
