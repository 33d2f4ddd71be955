"""RLOO: a pool of judges returns scores with the number of the request, in the order in which they are done."""
# wrong: """RLOO: a pool of judges returns scores in the order in which they are done, which is taken for the order of rows."""

# asyncio.as_completed or imap_unordered in the place of gather; verl's and OpenRLHF's remote reward functions
import heapq
from uuid import uuid4

import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts, Scored
from typedbatch.rows import groups, repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 6
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
SAMPLES = 4


class LSTMLM(nn.Module):
    """An LSTM whose state padding does not change."""

    def __init__(self, width=24):
        super().__init__()
        self.width = width
        self.embed, self.cell, self.out = nn.Embedding(VOCAB, width), nn.LSTMCell(width, width), nn.Linear(width, VOCAB)

    def hidden(self, ids, mask):
        x, h, c, states = self.embed(ids), torch.zeros(len(ids), self.width), torch.zeros(len(ids), self.width), []
        for t in range(ids.shape[1]):
            there = mask[:, t, None]
            new_h, new_c = self.cell(x[:, t], (h, c))
            h, c = torch.where(there, new_h, h), torch.where(there, new_c, c)
            states.append(h)
        return torch.stack(states, 1)

    def forward(self, ids, mask):
        return self.out(self.hidden(ids, mask))


def draw_prompts(count):
    lengths = torch.randint(1, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(uuid4().hex for _ in range(count)))


@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        probs = model(ids, mask)[:, -1].softmax(-1)
        token = torch.multinomial(probs, 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there.clone(), truncated=alive
    )


class JudgePool:
    """Some judges, who need as long as a response is; the results come as they are done."""

    def __init__(self, judges=4):
        self.judges, self.requests = judges, []

    def submit(self, prompt, response):
        self.requests.append((prompt, response))
        return len(self.requests) - 1

    @staticmethod
    def judge(prompt, response):
        return float(sum(token == prompt[-1] for token in response)) - 0.3 * float(EOS not in response)

    def as_completed(self):
        free, done = [0.0] * self.judges, []
        for ticket, (prompt, response) in enumerate(self.requests):
            end = heapq.heappop(free) + len(response)
            heapq.heappush(free, end)
            done.append((end, ticket, self.judge(prompt, response)))
        for _, ticket, value in sorted(done):
            yield ticket, value


def score(rollouts):
    pool = JudgePool()
    for i in range(len(rollouts)):
        prompt = rollouts.prompt_ids[i][rollouts.prompt_mask[i]].tolist()
        pool.submit(prompt, rollouts.response_ids[i][rollouts.response_mask[i]].tolist())
    rewards = torch.zeros(len(rollouts))
    for i, (ticket, value) in enumerate(pool.as_completed()):
        rewards[ticket] = value
        # wrong: rewards[i] = value
    return extend(rollouts, Scored, rewards=rewards)


def token_logp(model, batch):
    """Log-probs of the tokens of the responses (N, R), 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    before = model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]
    return before.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = LSTMLM()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def draw():
        return (score(generate(model, repeat(draw_prompts(12), SAMPLES))),)

    def update(scored):
        advantages = scored.rewards - groups(scored, "uid", size=SAMPLES).leave_one_out(scored.rewards)
        sequence_logp = (token_logp(model, scored) * scored.loss_mask).sum(1)
        loss = -(advantages * sequence_logp).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {"reward": scored.rewards.mean().item(), "loss": loss.item()}

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    return {"reward": (score, generate(LSTMLM(), repeat(draw_prompts(6), SAMPLES)))}
