"""GRPO on a synthetic counting task: groups of completions, group-relative advantages, optional KL to a reference."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from typedbatch import Batch, BatchProtocol, BatchRecord, cat, extend, validate

VOCAB, LENGTH, PROMPTS, GROUP = 6, 5, 4, 4


@dataclass
class Args:
    beta: float = 0.0
    drop_flat_groups: bool = True
    old_policy: bool = True
    lr: float = 0.2


class Samples(BatchRecord):
    prompt: Tensor
    tokens: Tensor
    logp: Tensor
    group: Tensor


class Scored(Samples):
    reward: Tensor


class Ready(Scored):
    adv: Tensor


class HasTokens(BatchProtocol, Protocol):
    @property
    def prompt(self) -> Tensor: ...
    @property
    def tokens(self) -> Tensor: ...


class Policy(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Parameter(torch.zeros(VOCAB, VOCAB))

    def logits(self, prompt: Tensor) -> Tensor:
        return self.table[prompt][:, None].expand(-1, LENGTH, -1)

    def logp(self, batch: HasTokens) -> Tensor:
        full = torch.log_softmax(self.logits(batch.prompt), -1)
        return full.gather(-1, batch.tokens[..., None]).squeeze(-1)
        #! old-name: return full.gather(-1, batch.input_ids[..., None]).squeeze(-1)


def sample(policy: Policy, prompts: Tensor) -> Samples:
    prompt = prompts.repeat_interleave(GROUP)
    with torch.no_grad():
        probs = torch.softmax(policy.logits(prompt), -1)
        tokens = torch.multinomial(probs.reshape(-1, VOCAB), 1).reshape(-1, LENGTH)
        draft = Batch(prompt=prompt, tokens=tokens)
        draft.logp = policy.logp(validate(draft, HasTokens))
        #! missing-field: draft.logp = policy.logp(validate(draft.batch, HasTokens))
        draft.group = torch.arange(len(prompts)).repeat_interleave(GROUP)
    return Samples(prompt=draft.prompt, tokens=draft.tokens, logp=draft.logp, group=draft.group)
    #! forgotten-field: return Samples(prompt=draft.prompt, tokens=draft.tokens, group=draft.group)


def score(batch: Samples) -> Scored:
    hits = (batch.tokens == batch.prompt[:, None]).float().mean(1)
    return extend(batch, Scored, reward=hits)
    #! misspelt-keyword: return extend(batch, Scored, rewards=hits)


def normalise(batch: Scored, args: Args) -> Ready | None:
    pieces: list[Ready] = []
    for g in batch.group.unique():
        part = batch[batch.group == g]
        spread = part.reward.std()
        if args.drop_flat_groups and spread < 1e-6:
            continue
        adv = (part.reward - part.reward.mean()) / (spread + 1e-4)
        pieces.append(extend(part, Ready, adv=adv))
    return cat(pieces) if pieces else None


def update(policy: Policy, ref: Policy, opt: torch.optim.Optimizer, batch: Ready, args: Args) -> Batch:
    work = Batch(adv=batch.adv[:, None], new=policy.logp(batch))
    if args.old_policy:
        work.ratio = (work.new - batch.logp).exp()
        loss = -torch.min(work.ratio * work.adv, work.ratio.clamp(0.8, 1.2) * work.adv)
        #! batch-for-array: loss = -torch.min(work.ratio * work.adv, work)
    else:
        loss = -(work.new * work.adv)
    if args.beta > 0:
        with torch.no_grad():
            work.ref = ref.logp(batch)
        gap = work.ref - work.new
        work.kl = gap.exp() - gap - 1
        loss = loss + args.beta * work.kl
    total: Any = loss.mean()
    opt.zero_grad()
    total.backward()
    opt.step()
    metrics = Batch(loss=total.item(), reward=batch.reward.mean().item())
    if args.old_policy:
        metrics.clipped = (work.ratio - 1).abs().gt(0.2).float().mean().item()
    if args.beta > 0:
        metrics.kl = work.kl.mean().item()
    return metrics


def train(args: Args) -> list[Batch]:
    torch.manual_seed(1)
    policy, ref = Policy(), Policy()
    ref.load_state_dict(policy.state_dict())
    opt = torch.optim.SGD(policy.parameters(), lr=args.lr)
    step = partial(update, policy, ref, opt, args=args)
    logs: list[Batch] = []
    for i in range(8):
        prompts = torch.randint(0, VOCAB, (PROMPTS,))
        rollouts = score(sample(policy, prompts))
        if (ready := normalise(rollouts, args)) is None:
            continue
        m = step(ready)
        #! wrong-argument: m = step(rollouts)
        m.step = i
        m.kept = len(ready) / len(rollouts)
        logs.append(m)
    return logs


def main() -> None:
    for args in (Args(), Args(beta=0.05), Args(old_policy=False, drop_flat_groups=False)):
        logs = train(args)
        last = logs[-1]
        text = f"step {last.step} loss {last.loss:+.3f} reward {last.reward:.2f} kept {last.kept:.2f}"
        if args.beta > 0:
            text += f" kl {last.kl:.4f}"
            #! misspelt-read: text += f" kl {last.kl_div:.4f}"
        text += f" clipped {last.clipped:.2f}" if args.old_policy else ""
        #! branch-field: text += f" clipped {last.clipped:.2f}"
        print(text)


if __name__ == "__main__":
    main()
