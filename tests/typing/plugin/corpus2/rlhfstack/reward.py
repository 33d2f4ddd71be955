"""Scores: a rule, a penalty for length, a reference."""

import functools
from collections.abc import Callable

import torch

from typedbatch import Batch, extend

from rlhfstack.model import Model
from rlhfstack.records import Completions, Rewarded

Rule = Callable[[Completions], torch.Tensor]


def repeats(batch: Completions) -> torch.Tensor:
    same = (batch.tokens[:, 1:] == batch.tokens[:, :-1]).float()
    return -same.mean(1)


def wants(token: int, batch: Completions) -> torch.Tensor:
    return ((batch.tokens == token).float() * batch.mask).mean(1)
    #! old-name: return ((batch.tokens == token).float() * batch.attention_mask).mean(1)


RULES: dict[str, Rule] = {"repeats": repeats, "threes": functools.partial(wants, 3)}


def parts(batch: Completions, penalty: float) -> Batch:
    out = Batch({name: rule(batch) for name, rule in RULES.items()})
    if penalty:
        out["length"] = -penalty * batch.mask.sum(1)
    return out


def score(batch: Completions, ref: Model, penalty: float) -> Rewarded:
    each = parts(batch, penalty)
    total = torch.stack(list(each.values())).sum(0)
    with torch.no_grad():
        ref_logp = ref.logp(batch.prompt, batch.tokens)
    return extend(batch, Rewarded, score=total, ref_logp=ref_logp)
    #! misspelt-keyword: return extend(batch, Rewarded, scores=total, ref_logp=ref_logp)
