"""Rejection sampling: SFT on the best rollouts of each prompt, cross-entropy over the tokens of the responses."""
# wrong: """SFT on rollouts: the loss mask is cut like the inputs, not like the labels, so it lies one token too far right."""

# verl PR 3287: off-by-one in the slicing of the loss mask of SFT
import numpy as np
import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts, Scored
from typedbatch.rows import repeat

torch.set_num_threads(1)
LETTERS, MAX_PROMPT, MAX_NEW, SAMPLES = 8, 4, 6, 8
PAD, EOS, VOCAB = 8, 9, 10


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


class RejectionSamplingTrainer:
    def __init__(self, policy, lr=5e-3, micro_batch=4):
        self.policy, self.micro_batch = policy, micro_batch
        self.opt = torch.optim.Adam(policy.parameters(), lr=lr)

    @staticmethod
    def reward(rollouts: Rollouts) -> Scored:
        """1 for each response that repeats the last letter of the prompt and then stops."""
        same = (rollouts.response_ids[:, 0] == rollouts.prompt_ids[:, -1]).float()
        return extend(rollouts, Scored, rewards=same + (rollouts.response_ids[:, 1] == EOS).float())

    @staticmethod
    def pick(scored: Scored) -> Scored:
        best = scored.rewards.view(-1, SAMPLES).argmax(1)
        return scored[torch.arange(len(best)) * SAMPLES + best]

    def step(self, batch: Scored) -> float:
        batch = self.pick(batch)
        total = batch.loss_mask.sum()
        self.opt.zero_grad()
        logged = 0.0
        for micro in batch.split(self.micro_batch, shuffle=False):
            ids = torch.cat([micro.prompt_ids, micro.response_ids], dim=1)
            attention_mask = torch.cat([micro.prompt_mask, micro.response_mask], dim=1)
            loss_mask = torch.cat([torch.zeros_like(micro.prompt_mask), micro.loss_mask], dim=1)
            logits = self.policy(ids, attention_mask)[:, :-1]
            labels, loss_mask = ids[:, 1:], loss_mask[:, 1:]
            # wrong: labels, loss_mask = ids[:, 1:], loss_mask[:, :-1]
            ce = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none")
            loss = (ce * loss_mask.flatten()).sum() / total
            loss.backward()
            logged += loss.item()
        self.opt.step()
        return batch.rewards.mean().item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    policy = GRULM()
    trainer = RejectionSamplingTrainer(policy)

    def draw():
        prompts = repeat(make_prompts(rng, 12), SAMPLES)
        return (trainer.reward(generate(policy, prompts)),)

    return trainer.step, draw
