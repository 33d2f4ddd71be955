"""Multi-turn GRPO with a tool: only the tokens of the model count in the loss."""
# wrong: """Multi-turn GRPO: the tokens of the tool are in the loss, because the mask of existing tokens is used."""

from uuid import uuid4

import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, CALL, ANSWER = 5, 3, 2, 3
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP = 8


class GRULM(nn.Module):
    """A recurrent language model; where there is padding its state is carried over."""

    def __init__(self, hidden=24):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.head = nn.Linear(hidden, VOCAB)

    def states(self, input_ids, attention_mask):
        x = self.embed(input_ids)
        h, states = x.new_zeros(len(x), x.shape[-1]), []
        for t in range(x.shape[1]):
            h = torch.where(attention_mask[:, t, None], self.cell(x[:, t], h), h)
            states.append(h)
        return torch.stack(states, 1)

    def forward(self, input_ids, attention_mask):
        return self.head(self.states(input_ids, attention_mask))


def draw_prompts(count):
    lengths = torch.randint(2, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(str(uuid4()) for _ in range(count)))


def tool(call):
    """The sum and the difference of the two tokens of the call."""
    return torch.stack([call.sum(1) % DIGITS, (call[:, 0] - call[:, 1]) % DIGITS], 1)


@torch.no_grad()
def rollout(model, prompts):
    """The model writes a call of two tokens, the tool appends its two tokens, and the model answers until EOS."""
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    start, alive, counted = ids.shape[1], torch.ones(len(prompts), dtype=torch.bool), []

    def append(token, counts):
        nonlocal ids, mask
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        counted.append(alive & counts)

    for _ in range(CALL):
        append(torch.multinomial(model(ids, mask)[:, -1].softmax(-1), 1)[:, 0], True)
    for token in tool(ids[:, -CALL:]).unbind(1):
        append(token, False)
    for _ in range(ANSWER):
        token = torch.multinomial(model(ids, mask)[:, -1].softmax(-1), 1)[:, 0].where(alive, PAD)
        append(token, True)
        alive = alive & (token != EOS)
    return extend(
        prompts, Rollouts, response_ids=ids[:, start:], response_mask=mask[:, start:], loss_mask=torch.stack(counted, 1)
    )


def reward(rollouts):
    """1 if the answer begins with what the tool said first, and half of it for an answer that stops."""
    said = rollouts.response_ids[:, CALL]
    right = (rollouts.response_ids[:, CALL + 2] == said).float()
    stopped = (rollouts.response_ids[:, CALL + 2 :] == EOS).any(1).float()
    return extend(rollouts, Scored, rewards=right + 0.5 * stopped)


def logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    logits = model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))
    before = logits[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


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
    model = GRULM()
    return MultiTurnGRPO(model).update, lambda: (reward(rollout(model, repeat(draw_prompts(8), GROUP))),)
