"""REINFORCE with a learned value of the prompt as the baseline."""
# wrong: """REINFORCE: values (N, 1) minus rewards (N,) is (N, N), so each value is fitted to the mean of all rewards."""

# ms-swift PR 9927 is the same with rewards (B, 1) and margins (B,)
import numpy as np
import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts, Scored

torch.set_num_threads(1)
LETTERS, MAX_PROMPT, MAX_NEW = 6, 3, 4
PAD, EOS, VOCAB = 6, 7, 8


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


class PolicyWithValue(GRULM):
    def __init__(self):
        super().__init__()
        self.value_head = nn.Linear(24, 1)

    def value(self, prompts):
        return self.value_head(self.states(prompts.prompt_ids, prompts.prompt_mask)[:, -1].detach())


def make_prompts(rng: np.random.Generator, n: int) -> Prompts:
    """Prompts of 1 to MAX_PROMPT letters, padded on the left."""
    rows = [rng.integers(0, LETTERS, size=rng.integers(1, MAX_PROMPT + 1)).tolist() for _ in range(n)]
    ids = torch.tensor([[PAD] * (MAX_PROMPT - len(r)) + r for r in rows])
    mask = torch.tensor([[False] * (MAX_PROMPT - len(r)) + [True] * len(r) for r in rows])
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(f"q{rng.integers(1 << 40)}" for _ in rows))


@torch.no_grad()
def generate(policy, prompts: Prompts, temperature: float = 1.0) -> Rollouts:
    """Sample until EOS or MAX_NEW tokens, and keep the sampler's log-probs."""
    policy.eval()
    n = len(prompts)
    input_ids, attention_mask = prompts.prompt_ids, prompts.prompt_mask
    unfinished = torch.ones(n, dtype=torch.bool)
    logps = []
    for _ in range(MAX_NEW):
        dist = torch.distributions.Categorical(logits=policy(input_ids, attention_mask)[:, -1] / temperature)
        tok = dist.sample()
        logps.append(dist.log_prob(tok) * unfinished)
        tok = torch.where(unfinished, tok, torch.full_like(tok, PAD))
        input_ids = torch.cat([input_ids, tok.unsqueeze(1)], dim=1)
        attention_mask = torch.cat([attention_mask, unfinished.unsqueeze(1)], dim=1)
        unfinished = unfinished & tok.ne(EOS)
    policy.train()
    p = prompts.prompt_ids.shape[1]
    response_mask = attention_mask[:, p:]
    return extend(
        prompts,
        Rollouts,
        response_ids=input_ids[:, p:],
        response_mask=response_mask,
        loss_mask=response_mask.clone(),
        rollout_logp=torch.stack(logps, dim=1),
        response_length=response_mask.sum(1),
        truncated=unfinished,
    )


def get_per_token_logps(model, batch):
    input_ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
    attention_mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
    logits = model(input_ids, attention_mask)[:, :-1]  # the last one predicts a token that is not there
    logits = logits[:, -batch.response_ids.size(1) :]
    logps = torch.log_softmax(logits, dim=-1)
    return torch.gather(logps, dim=2, index=batch.response_ids.unsqueeze(2)).squeeze(2) * batch.response_mask


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    agent = PolicyWithValue()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1e-2)

    def draw():
        rollouts = generate(agent, make_prompts(rng, 32))
        first = rollouts.prompt_ids[:, -1]
        hits = ((rollouts.response_ids == first[:, None]) & rollouts.response_mask).sum(1)
        return (extend(rollouts, Scored, rewards=hits / MAX_NEW + first / LETTERS),)

    def update(scored):
        value = agent.value(scored).squeeze(-1)
        # wrong: value = agent.value(scored)
        value_loss = (value - scored.rewards).square().mean()
        advantages = scored.rewards - value.detach().flatten()
        sequence_logp = (get_per_token_logps(agent, scored) * scored.loss_mask).sum(1)
        loss = -(advantages * sequence_logp).mean() + 0.5 * value_loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return scored.rewards.mean().item()

    return update, draw
