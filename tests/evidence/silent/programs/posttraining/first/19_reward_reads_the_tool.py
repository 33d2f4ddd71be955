"""Multi-turn GRPO with a calculator: the reward looks for the result in what the model wrote after the tool."""
# wrong: """Multi-turn GRPO: the reward looks for the result in the whole response, where the tool has already written it."""

# in search agents, a match over the full text also finds what was retrieved
import numpy as np
import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, CALL, ANSWER = 7, 2, 2, 3
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
GROUP = 8


class Policy(nn.Module):
    """Next token from the last token, the mean of all before it and the position: a bag of words that is causal."""

    def __init__(self, d_model=16):
        super().__init__()
        self.wte = nn.Embedding(VOCAB, d_model)
        self.wpe = nn.Embedding(16, d_model)
        self.net = nn.Sequential(nn.Linear(3 * d_model, 32), nn.Tanh(), nn.Linear(32, VOCAB))

    def forward(self, ids, attention_mask):
        m = attention_mask.unsqueeze(-1).float()
        count = attention_mask.long().cumsum(1)
        x = self.wte(ids) * m
        mean = x.cumsum(1) / count.clamp(min=1).unsqueeze(-1)
        return self.net(torch.cat([x, mean, self.wpe((count - 1).clamp(min=0))], dim=-1))


def tool(call):
    """The sum and the product of the two tokens of the call."""
    return torch.stack([call.sum(1) % DIGITS, call.prod(1) % DIGITS], 1)


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


def get_per_token_logps(model, batch):
    input_ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
    attention_mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
    logits = model(input_ids, attention_mask)[:, :-1]  # the last one predicts a token that is not there
    logits = logits[:, -batch.response_ids.size(1) :]
    logps = torch.log_softmax(logits, dim=-1)
    return torch.gather(logps, dim=2, index=batch.response_ids.unsqueeze(2)).squeeze(2) * batch.response_mask


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
        self.model = Policy()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-2)

    def collect(self):
        prompts = repeat(draw_prompts(self.rng, 8), GROUP)
        return (exact_match(rollout(self.model, prompts)),)

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
    return {"reward": (exact_match, rollout(Policy(), prompts))}
