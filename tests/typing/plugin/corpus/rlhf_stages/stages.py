"""The functions from one stage to the next."""

from __future__ import annotations

import torch
from torch import Tensor

from rlhf_stages.batches import Experience, HasKL, Responses, ScoredResponses
from rlhf_stages.models import PolicyWithValue, RewardModel
from rlhf_stages.settings import Settings
from typedbatch import Batch, extend


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    return (x * mask).sum() / mask.sum()


def logp_and_value(model: PolicyWithValue, ids: Tensor) -> tuple[Tensor, Tensor]:
    logits, value = model(ids)
    logp = torch.log_softmax(logits[:, :-1], -1).gather(-1, ids[:, 1:, None]).squeeze(-1)
    return logp, value[:, :-1]


def rollout(policy: PolicyWithValue, cfg: Settings) -> Responses:
    prompts = torch.randint(0, cfg.vocab, (cfg.batch_size, cfg.prompt_length))
    ids = policy.generate(prompts, cfg.response_length)
    mask = torch.ones(ids.shape)
    mask[:, : cfg.prompt_length] = 0
    return Responses(input_ids=ids, response_mask=mask[:, 1:])
    #! missing-field: return Responses(input_ids=ids)


@torch.no_grad()
def score(batch: Responses, policy: PolicyWithValue, ref: PolicyWithValue, reward_model: RewardModel) -> ScoredResponses:
    old_logp, value = logp_and_value(policy, batch.input_ids)
    ref_logp, _ = logp_and_value(ref, batch.input_ids)
    scores = reward_model(batch.input_ids[:, 1:], batch.response_mask)
    #! misspelt-read: scores = reward_model(batch.input_ids[:, 1:], batch.responses_mask)
    return extend(batch, ScoredResponses, scores=scores, old_logp=old_logp, ref_logp=ref_logp, value=value)
    #! misspelt-keyword: return extend(batch, ScoredResponses, scores=scores, logp_old=old_logp, ref_logp=ref_logp, value=value)


def mean_kl(batch: HasKL) -> float:
    return masked_mean(batch.old_logp - batch.ref_logp, batch.response_mask).item()


def advantages(batch: ScoredResponses, cfg: Settings) -> Experience:
    rewards = -cfg.kl_coef * (batch.old_logp - batch.ref_logp) * batch.response_mask
    rewards[:, -1] += batch.scores
    #! later-stage: rewards[:, -1] += batch.rewards
    work = Batch(delta=torch.zeros_like(rewards), adv=torch.zeros_like(rewards))
    nxt = torch.cat([batch.value[:, 1:], torch.zeros(len(batch), 1)], 1)
    work.delta = rewards + cfg.gamma * nxt - batch.value
    last = torch.zeros(len(batch))
    for t in reversed(range(rewards.shape[1])):
        last = work.delta[:, t] + cfg.gamma * cfg.lam * last
        #! misspelt-read: last = work.deltas[:, t] + cfg.gamma * cfg.lam * last
        work.adv[:, t] = last
    returns = work.adv + batch.value
    if cfg.whiten:
        mean = masked_mean(work.adv, batch.response_mask)
        work.std = masked_mean((work.adv - mean) ** 2, batch.response_mask).sqrt()
        work.adv = (work.adv - mean) / (work.std + 1e-8)
    return extend(batch, Experience, rewards=rewards, adv=work.adv, returns=returns)
    #! wrong-type: return extend(batch, Experience, rewards=rewards, adv=work, returns=returns)


def losses(batch: Experience, policy: PolicyWithValue, cfg: Settings) -> Batch:
    logp, value = logp_and_value(policy, batch.input_ids)
    ratio = torch.exp(logp - batch.old_logp)
    out = Batch(ratio=ratio)
    out.policy = -masked_mean(torch.min(ratio * batch.adv, ratio.clamp(1 - cfg.clip, 1 + cfg.clip) * batch.adv), batch.response_mask)
    out.value = 0.5 * masked_mean((value - batch.returns) ** 2, batch.response_mask)
    out.total = out.policy + 0.1 * out.value
    return out
