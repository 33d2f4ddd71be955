"""Advantages token by token, and the clipped update."""

from typing import Any

import torch

from typedbatch import Batch, extend

from rlhfstack.model import Model, masked_mean
from rlhfstack.records import Experience, Rewarded


def experience(batch: Rewarded, model: Model, beta: float, gamma: float = 1.0, lam: float = 0.9) -> Experience:
    with torch.no_grad():
        values = model.values(batch)
    work = Batch(kl=batch.logp - batch.ref_logp, values=values)
    work.rew = -beta * work.kl * batch.mask
    work.rew[:, -1] += batch.score
    work.adv = torch.zeros_like(work.rew)
    run = torch.zeros(len(batch))
    for t in reversed(range(work.rew.shape[1])):
        nxt = values[:, t + 1] * batch.mask[:, t + 1] if t + 1 < values.shape[1] else torch.zeros(len(batch))
        run = work.rew[:, t] + gamma * nxt - values[:, t] + gamma * lam * run
        work.adv[:, t] = run
        #! misspelt-read: work.advs[:, t] = run
    return extend(batch, Experience, adv=work.adv, returns=work.adv + values)
    #! forgotten-field: return extend(batch, Experience, adv=work.adv)


def ppo(model: Model, opt: torch.optim.Optimizer, batch: Experience, epochs: int = 2) -> Batch:
    seen: list[Batch] = []
    for epoch in range(epochs):
        for i, mb in enumerate(batch.split(4, rng=epoch)):
            ratio = (model.logp(mb.prompt, mb.tokens) - mb.logp).exp()
            pg = -torch.min(ratio * mb.adv, ratio.clamp(0.8, 1.2) * mb.adv)
            vf = (model.values(mb) - mb.returns) ** 2
            #! misspelt-read: vf = (model.values(mb) - mb.rets) ** 2
            loss: Any = masked_mean(pg + 0.1 * vf, mb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            now = Batch(loss=loss.item(), clipped=((ratio - 1).abs() > 0.2).float().mean().item())
            if epoch == 0 and i == 0:
                now.first_ratio = ratio.mean().item()
            seen.append(now)
    losses = [float(s.loss) for s in seen]
    out = Batch(loss=sum(losses) / len(losses), first=seen[0].first_ratio)
    #! branch-field: out = Batch(loss=sum(losses) / len(losses), first=seen[-1].first_ratio)
    out.clipped = max(float(s.clipped) for s in seen)
    return out
