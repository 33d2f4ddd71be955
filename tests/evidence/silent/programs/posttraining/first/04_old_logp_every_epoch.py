"""PPO-clip over group advantages, four epochs over the rollouts of one policy."""
# wrong: """GRPO: old log-probs are computed again in each epoch, so the ratio compares with the last epoch, not with the sampler."""
import torch

from tests.evidence.silent.shared.digits import draw_prompts, sample, token_logp as logp
from tests.evidence.silent.shared.models import CausalLM
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

DIGITS, PROMPT, RESPONSE = 5, 3, 4
VOCAB = DIGITS + 2
GROUP, EPOCHS, CLIP = 8, 4, 0.2


def score(rollouts):
    """Highest for a response with all tokens equal to the greatest digit of the prompt."""
    greatest = rollouts.prompt_ids.where(rollouts.prompt_mask, -1).max(1).values
    hits = (rollouts.response_ids == greatest[:, None]) & rollouts.response_mask
    return extend(rollouts, Scored, rewards=hits.sum(1) / RESPONSE)


def advantages_of(batch):
    by_prompt = groups(batch, "uid", size=GROUP)
    centred = batch.rewards - by_prompt.mean(batch.rewards)
    return (centred / (by_prompt.std(batch.rewards) + 1e-4))[:, None] * batch.loss_mask


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = CausalLM(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def with_old(scored):
        with torch.no_grad():
            return extend(scored, Ready, old_logp=logp(model, scored), advantages=advantages_of(scored))

    def update(scored):
        ready = with_old(scored)
        # wrong: without this line
        for _ in range(EPOCHS):
            # wrong, too: ready = with_old(scored)
            ratio = (logp(model, ready) - ready.old_logp).exp()
            gain = torch.min(ratio * ready.advantages, ratio.clamp(1 - CLIP, 1 + CLIP) * ready.advantages)
            loss = -gain[ready.loss_mask].mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        return scored.rewards.mean().item()

    def draw():
        return (score(sample(model, repeat(draw_prompts(8, DIGITS, (2, PROMPT)), GROUP), RESPONSE, DIGITS)),)

    return update, draw
