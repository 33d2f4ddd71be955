"""PPO-clip with the log-probs of the sampler as the old ones; all log-probs in float32."""
# wrong: """PPO-clip: the trainer's log-softmax is in bfloat16, the sampler's in float32, so the ratio is noise of about a percent."""
import numpy as np
import torch

from tests.evidence.silent.shared.letters import generate, make_prompts
from tests.evidence.silent.shared.models import CausalLM
from typedbatch import extend
from typedbatch.posttraining import Ready, Scored
from typedbatch.rows import groups, repeat

LETTERS, MAX_PROMPT, MAX_NEW, N = 10, 3, 5, 4
PAD, EOS, VOCAB = 10, 11, 12


def selective_log_softmax(logits, index):
    """Of the chosen tokens only."""
    return torch.gather(logits.log_softmax(-1), -1, index.unsqueeze(-1)).squeeze(-1)
    # wrong: logits = logits.to(torch.bfloat16)  # half the memory
    # wrong, too: return torch.gather(logits.log_softmax(-1), -1, index.unsqueeze(-1)).squeeze(-1).float()


def compute_logprobs(model, batch):
    input_ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
    position_mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
    logits = model(input_ids, position_mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return selective_log_softmax(logits, batch.response_ids) * batch.response_mask


class PPO:
    def __init__(self, model, lr=3e-3, clip=0.2):
        self.model, self.clip = model, clip
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def update(self, scored):
        g = groups(scored, "uid", size=N)
        adv = scored.rewards - g.mean(scored.rewards)
        ready = extend(scored, Ready, old_logp=scored.rollout_logp, advantages=adv[:, None] * scored.loss_mask)
        for mini in ready.split(16, rng=torch.default_generator):
            ratio = torch.exp(compute_logprobs(self.model, mini) - mini.old_logp)
            gain = torch.min(ratio * mini.advantages, ratio.clamp(1 - self.clip, 1 + self.clip) * mini.advantages)
            loss = -(gain * mini.loss_mask).sum() / mini.loss_mask.sum()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return scored.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    model = CausalLM(VOCAB)

    def draw():
        rollouts = generate(model, repeat(make_prompts(rng, 12, LETTERS, MAX_PROMPT), N), MAX_NEW, PAD, EOS)
        near = 1 - (rollouts.response_ids - rollouts.prompt_ids[:, -1:]).abs() / VOCAB
        return (extend(rollouts, Scored, rewards=(near * rollouts.response_mask).sum(1) / rollouts.response_length),)

    return PPO(model).update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    model = CausalLM(VOCAB)
    prompts = make_prompts(np.random.default_rng(seed), 6, LETTERS, MAX_PROMPT)
    rollouts = generate(model, repeat(prompts, N), MAX_NEW, PAD, EOS)
    return {"logp": (compute_logprobs, model, rollouts)}
