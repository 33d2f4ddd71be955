"""The single controller."""

from __future__ import annotations

import torch

from typedbatch import Batch
from verl_workers.protocol import DataProto, prompts
from verl_workers.workers import LM, ActorWorker, CriticWorker, RolloutWorker

VOCAB = 10


def rewards(data: DataProto) -> DataProto:
    token_level = (data.batch["responses"] == 3).float()
    out = Batch(token_level_scores=token_level)
    out.total = out.token_level_scores.sum(-1)
    #! misspelt-read: out.total = out.token_scores.sum(-1)
    return DataProto(out)


def advantages(data: DataProto, lam: float = 0.95) -> DataProto:
    scores, vals = data.batch["token_level_scores"], data.batch["vals"]
    work = Batch(adv=torch.zeros_like(scores))
    nxt, last = torch.zeros(len(data)), torch.zeros(len(data))
    for t in reversed(range(scores.shape[1])):
        delta = scores[:, t] + nxt - vals[:, t]
        last = delta + lam * last
        work.adv[:, t] = last
        nxt = vals[:, t]
    work.returns = work.adv + vals
    return DataProto(Batch(advantages=work.adv, returns=work.returns))
    #! wrong-type: return Batch(advantages=work.adv, returns=work.returns)


def run(steps: int) -> list[str]:
    policy, value = LM(VOCAB, VOCAB), LM(VOCAB, 1)
    rollout, actor, critic = RolloutWorker(policy, 4), ActorWorker(policy), CriticWorker(value)
    actor_optim, critic_optim = torch.optim.Adam(policy.parameters(), 3e-2), torch.optim.Adam(value.parameters(), 1e-2)
    lines = []
    for _ in range(steps):
        data = prompts(8, 3, VOCAB)
        data = DataProto.concat([shard.union(rollout.generate(shard)) for shard in data.chunk(2)])
        data = data.union(rewards(data)).union(critic.compute_values(data))
        with torch.no_grad():
            data.batch.old_log_probs = actor.log_prob(data)
        data = data.union(advantages(data))
        metrics = actor.update(data, actor_optim)
        loss = critic.update(data, critic_optim)
        lines.append(f"score {data.batch['total'].mean().item():.3f} pg {metrics['pg_loss'].item():.4f} v {loss:.4f}")
    return lines
