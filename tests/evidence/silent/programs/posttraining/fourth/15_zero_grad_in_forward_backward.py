"""Dr. GRPO against a client with forward_backward and optim_step, where gradients of micro-batches add up."""
# wrong: """Gradients are set to zero before each micro-batch, so that only the last one is left for the optimizer."""
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

END, NONE, SIZE = 11, 12, 13
TASKS, GROUP, LIMIT, MICRO = 5, 8, 8, 8

Loss = Callable[[Tensor, Ready], Tensor]


class Policy(nn.Module):
    """An LSTM over the present token, that also sees which tokens the prompt has."""

    def __init__(self, hidden: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(SIZE, hidden)
        self.about = nn.EmbeddingBag(SIZE, hidden, mode="sum", padding_idx=NONE)
        self.rnn, self.head = nn.LSTM(2 * hidden, hidden, batch_first=True), nn.Linear(hidden, SIZE - 1)

    def forward(self, prompt: Tensor, before: Tensor, state=None):
        about = self.about(prompt)[:, None].expand(-1, before.shape[1], -1)
        out, state = self.rnn(torch.cat([self.embed(before), about], -1), state)
        return self.head(out), state


def logprobs(policy: Policy, batch: Rollouts) -> Tensor:
    prompt = batch.prompt_ids.where(batch.prompt_mask, NONE)
    before = torch.cat([torch.full_like(batch.response_ids[:, :1], NONE), batch.response_ids[:, :-1]], 1)
    logits, _ = policy(prompt, before)
    target = batch.response_ids.where(batch.response_mask, END)
    return logits.log_softmax(-1).gather(2, target[..., None])[..., 0] * batch.response_mask


class TrainingClient:
    def __init__(self, policy: Policy, lr: float) -> None:
        self.policy, self.optimizer = policy, torch.optim.Adam(policy.parameters(), lr=lr)

    def forward_backward(self, data: Ready, loss_fn: Loss) -> float:
        # wrong, too: self.optimizer.zero_grad()
        loss = loss_fn(logprobs(self.policy, data), data)
        loss.backward()
        return loss.item()

    def optim_step(self) -> float:
        norm = nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        # wrong: without this line
        return norm.item()


class SamplingClient:
    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    @torch.no_grad()
    def sample(self, prompts: Prompts) -> Rollouts:
        prompt = prompts.prompt_ids.where(prompts.prompt_mask, NONE)
        token, state = torch.full((len(prompts), 1), NONE), None
        going = torch.ones(len(prompts), 1, dtype=torch.bool)
        ids, logps, there = [], [], []
        for _ in range(LIMIT):
            logits, state = self.policy(prompt, token, state)
            logp = logits[:, 0].log_softmax(-1)
            token = torch.multinomial(logp.exp(), 1)
            ids.append(token.where(going, NONE))
            logps.append(logp.gather(1, token) * going)
            there.append(going)
            going = going & (token != END)
        mask = torch.cat(there, 1)
        return extend(
            prompts, Rollouts, response_ids=torch.cat(ids, 1), response_mask=mask, loss_mask=mask,
            rollout_logp=torch.cat(logps, 1), response_length=mask.sum(1), truncated=going[:, 0],
        )


def grade(rollouts: Rollouts) -> Scored:
    """All tokens of the prompt should be there, and few others."""
    asked = nn.functional.one_hot(rollouts.prompt_ids, SIZE).mul(rollouts.prompt_mask[..., None]).amax(1)
    written = nn.functional.one_hot(rollouts.response_ids, SIZE).mul(rollouts.response_mask[..., None]).amax(1)
    asked[:, END:], written[:, END:] = 0, 0
    union = (asked | written).sum(1).clamp(min=1)
    return extend(rollouts, Scored, rewards=(asked & written).sum(1) / union)


def importance_sampling(logp: Tensor, data: Ready, constant: float) -> Tensor:
    ratio = (logp - data.old_logp).exp()
    return -(ratio * data.advantages * data.loss_mask).sum() / constant


def problems(seed: int) -> Iterator[Prompts]:
    step = 0
    while True:
        mask = torch.arange(4) >= torch.randint(0, 4, (TASKS, 1))
        ids = torch.randint(0, END, (TASKS, 4)).where(mask, NONE)
        yield Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects((seed, step, i) for i in range(TASKS)))
        step += 1


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy = Policy()
    training, sampling, prompts = TrainingClient(policy, lr=4e-3), SamplingClient(policy), problems(seed)

    def draw():
        return (grade(sampling.sample(repeat(next(prompts), GROUP))),)

    def update(scored: Scored) -> dict[str, float]:
        centered = scored.rewards - groups(scored, "uid", size=GROUP).mean(scored.rewards)
        advantages = centered[:, None] * scored.loss_mask
        ready = extend(scored, Ready, old_logp=scored.rollout_logp, advantages=advantages)
        loss_fn = partial(importance_sampling, constant=len(ready) * LIMIT)
        loss = sum(training.forward_backward(micro, loss_fn) for micro in ready.split(MICRO))
        norm = training.optim_step()
        return {"loss": loss, "grad_norm": norm, "reward": scored.rewards.mean().item()}

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    policy = Policy()
    prompts = next(problems(seed))
    rollouts = SamplingClient(policy).sample(prompts)
    return {
        "logp": (logprobs, policy, rollouts), "reward": (grade, rollouts), "sample": (SamplingClient(policy).sample, prompts)
    }
