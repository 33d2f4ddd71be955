"""Prompts of letters, responses of a policy, and their log-probabilities."""

import numpy as np
import torch

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts


def make_prompts(rng: np.random.Generator, n: int, letters: int, longest: int) -> Prompts:
    """Return prompts of 1 to `longest` letters, padded on the left."""
    rows = [rng.integers(0, letters, size=rng.integers(1, longest + 1)).tolist() for _ in range(n)]
    ids = torch.tensor([[letters] * (longest - len(r)) + r for r in rows])
    mask = torch.tensor([[False] * (longest - len(r)) + [True] * len(r) for r in rows])
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(f"q{rng.integers(1 << 40)}" for _ in rows))


@torch.no_grad()
def generate(policy, prompts: Prompts, steps: int, pad: int, eos: int, temperature: float = 1.0) -> Rollouts:
    """Sample until `eos` or for `steps` tokens, and return the log-probs of the sampler, too."""
    policy.eval()
    n = len(prompts)
    input_ids, attention_mask = prompts.prompt_ids, prompts.prompt_mask
    unfinished = torch.ones(n, dtype=torch.bool)
    logps = []
    for _ in range(steps):
        dist = torch.distributions.Categorical(logits=policy(input_ids, attention_mask)[:, -1] / temperature)
        tok = dist.sample()
        logps.append(dist.log_prob(tok) * unfinished)
        tok = torch.where(unfinished, tok, torch.full_like(tok, pad))
        input_ids = torch.cat([input_ids, tok.unsqueeze(1)], dim=1)
        attention_mask = torch.cat([attention_mask, unfinished.unsqueeze(1)], dim=1)
        unfinished = unfinished & tok.ne(eos)
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
    """Return log-probs of the tokens of the responses (N, R), 0 where there is none."""
    input_ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
    attention_mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
    logits = model(input_ids, attention_mask)[:, :-1]  # the last one predicts a token that is not there
    logits = logits[:, -batch.response_ids.size(1) :]
    logps = torch.log_softmax(logits, dim=-1)
    return torch.gather(logps, dim=2, index=batch.response_ids.unsqueeze(2)).squeeze(2) * batch.response_mask
