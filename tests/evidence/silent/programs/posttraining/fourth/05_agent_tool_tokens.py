"""An agent with a calculator, trained by GRPO with a KL term on the tokens that it sampled itself."""
# wrong: """The policy loss counts every token of the response, and so trains on the output of the tool as well."""
from copy import deepcopy

import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored
from typedbatch.rows import groups, repeat

# tokens: digits 0 .. 9, then:
PAD, END, CALL, RESULT, PLUS, ANSWER = range(10, 16)
VOCABULARY = 16
TASKS, ATTEMPTS, TURN = 6, 8, 9
BETA, EPSILON = 0.02, 0.2


class Decoder(nn.Module):
    def __init__(self, width=32, heads=2, layers=2, longest=16):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(longest, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.heads, self.unembed = heads, nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, ids, mask):
        size = ids.shape[1]
        allowed = torch.ones(size, size, dtype=torch.bool).tril() & mask[:, None] | torch.eye(size, dtype=torch.bool)
        blocked = ~allowed.repeat_interleave(self.heads, 0)
        x = self.wte(ids) + self.wpe((mask.cumsum(1) - 1).clamp(min=0))
        for layer in self.layers:
            x = layer(x, src_mask=blocked)
        return self.unembed(x)


class Agent:
    """Writes tokens; after CALL the calculator writes RESULT and the last digit of the sum, once for each attempt."""

    def __init__(self, model):
        self.model = model

    @torch.no_grad()
    def act(self, prompts):
        n, start = prompts.prompt_ids.shape
        ids, mask, own = prompts.prompt_ids, prompts.prompt_mask, []
        forced = torch.full((n, TURN + 2), -1)
        going, called = torch.ones(n, dtype=torch.bool), torch.zeros(n, dtype=torch.bool)
        result = (prompts.prompt_ids[:, 0] + prompts.prompt_ids[:, 2]) % 10
        for t in range(TURN):
            sampled = torch.multinomial(self.model(ids, mask)[:, -1].softmax(-1), 1)[:, 0]
            by_tool = forced[:, t] >= 0
            token = forced[:, t].where(by_tool, sampled).where(going, PAD)
            calls = going & ~by_tool & ~called & (token == CALL)
            forced[calls, t + 1], forced[calls, t + 2] = RESULT, result[calls]
            called = called | calls
            own.append(going & ~by_tool)
            ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, going[:, None]], 1)
            going = going & ((token != END) | by_tool)
        return extend(
            prompts, Rollouts, response_ids=ids[:, start:], response_mask=mask[:, start:], loss_mask=torch.stack(own, 1),
            truncated=going,
        )


def grade(rollouts):
    """ANSWER followed by the sum gives 1, a call of the tool 0.3, an end 0.2."""
    ids = rollouts.response_ids
    goal = (rollouts.prompt_ids[:, 0] + rollouts.prompt_ids[:, 2]) % 10
    answered = ((ids[:, :-1] == ANSWER) & (ids[:, 1:] == goal[:, None])).any(1)
    used = ((ids == CALL) & rollouts.loss_mask).any(1)
    return extend(rollouts, Scored, rewards=answered + 0.3 * used + 0.2 * (ids == END).any(1))


def response_logp(model, batch):
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    logits = model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))
    logp = logits[:, :-1].log_softmax(-1).gather(2, ids[:, 1:, None])[..., 0]
    return logp[:, batch.prompt_ids.shape[1] - 1 :] * batch.response_mask


def grpo_loss(logp, batch):
    mask = batch.loss_mask
    # wrong: mask = batch.response_mask
    ratio = (logp - batch.old_logp).exp()
    gain = torch.min(ratio * batch.advantages, ratio.clamp(1 - EPSILON, 1 + EPSILON) * batch.advantages)
    apart = batch.ref_logp - logp
    k3 = apart.exp() - apart - 1
    return ((BETA * k3 - gain) * mask).sum() / mask.sum()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = Decoder()
    reference = deepcopy(model).requires_grad_(False)
    agent, optimizer = Agent(model), torch.optim.AdamW(model.parameters(), 1e-3)

    def draw():
        a, b = torch.randint(10, (2, TASKS))
        ids = torch.stack([a, torch.full_like(a, PLUS), b], 1)
        prompts = Prompts(prompt_ids=ids, prompt_mask=torch.ones_like(ids).bool(), uid=objects(range(TASKS)))
        return (grade(agent.act(repeat(prompts, ATTEMPTS))),)

    def update(scored):
        of_task = groups(scored, "uid", size=ATTEMPTS)
        advantage = (scored.rewards - of_task.mean(scored.rewards)) / (of_task.std(scored.rewards) + 1e-4)
        with torch.no_grad():
            old, ref = response_logp(model, scored), response_logp(reference, scored)
        ready = extend(
            scored, Ready, old_logp=old, ref_logp=ref, advantages=advantage[:, None].expand_as(old).contiguous()
        )
        for _ in range(2):
            loss = grpo_loss(response_logp(model, ready), ready)
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        return {"loss": loss.item(), "norm": norm.item(), "reward": scored.rewards.mean().item()}

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    model = Decoder()
    a, b = torch.randint(10, (2, 16))
    ids = torch.stack([a, torch.full_like(a, PLUS), b], 1)
    prompts = Prompts(prompt_ids=ids, prompt_mask=torch.ones_like(ids).bool(), uid=objects(range(16)))
    rollouts = Agent(model).act(prompts)
    return {"logp": (response_logp, model, rollouts), "reward": (grade, rollouts), "sample": (Agent(model).act, prompts)}
