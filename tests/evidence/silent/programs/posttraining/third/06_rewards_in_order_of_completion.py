"""RLOO: a pool of judges returns scores with the number of the request, in the order in which they are done."""
# wrong: """RLOO: a pool of judges returns scores in the order in which they are done, which is taken for the order of rows."""

# asyncio.as_completed or imap_unordered in the place of gather; verl's and OpenRLHF's remote reward functions
import heapq

import torch
from torch import nn

from tests.evidence.silent.shared.digits import EOS, VOCAB, draw_prompts, sample, token_logp
from tests.evidence.silent.shared.models import LSTMLM
from typedbatch import extend
from typedbatch.posttraining import Scored
from typedbatch.rows import groups, repeat

RESPONSE = 6
SAMPLES = 4


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


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = LSTMLM(VOCAB)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def draw():
        return (score(sample(model, repeat(draw_prompts(12), SAMPLES), RESPONSE)),)

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
    return {"reward": (score, sample(LSTMLM(VOCAB), repeat(draw_prompts(6), SAMPLES), RESPONSE))}
