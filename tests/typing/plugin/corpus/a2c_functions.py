"""A2C as plain functions: collect, process, learn, over the library's stages."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import (
    Batch,
    BatchWithAdvantages,
    BatchWithAdvantagesProtocol,
    BatchWithReturns,
    BatchWithReturnsProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    convert,
    extend,
)


def collect(steps: int, rng: np.random.Generator) -> RolloutBatch:
    obs = rng.normal(size=(steps + 1, 3)).astype(np.float32)
    act = rng.integers(0, 2, size=steps)
    rew = obs[:-1, 0] * (2 * act - 1)
    #! wrong-type: rew = None
    terminated = np.arange(steps) % 10 == 9
    return RolloutBatch(
        obs=obs[:-1],
        obs_next=obs[1:],
        act=act,
        rew=rew,
        terminated=terminated,
        truncated=np.zeros(steps, bool),
        info=Batch(),
    )


def add_returns(batch: RolloutBatchProtocol, gamma: float) -> BatchWithReturns:
    returns = np.zeros(len(batch))
    running = 0.0
    for t in reversed(range(len(batch))):
        running = float(batch.rew[t]) + gamma * running * (not batch.terminated[t])
        #! old-name: running = float(batch.rew[t]) + gamma * running * (not batch.done[t])
        returns[t] = running
    return extend(batch, BatchWithReturns, returns=returns)
    #! misspelt-keyword: return extend(batch, BatchWithReturns, return_=returns)


def add_advantages(batch: BatchWithReturnsProtocol, critic: nn.Module) -> BatchWithAdvantages:
    with torch.no_grad():
        v_s = critic(torch.as_tensor(batch.obs)).squeeze(-1).numpy()
    adv = batch.returns - v_s
    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
    return extend(batch, BatchWithAdvantages, adv=adv, v_s=v_s)
    #! forgotten-field: return extend(batch, BatchWithAdvantages, adv=adv)


def learn(
    batch: BatchWithAdvantagesProtocol[Tensor],
    actor: nn.Module,
    critic: nn.Module,
    optim: torch.optim.Optimizer,
) -> dict[str, float]:
    logits = actor(batch.obs)
    logp = torch.log_softmax(logits, dim=-1).gather(1, batch.act[:, None]).squeeze(1)
    policy_loss = -(logp * batch.adv).mean()
    #! misspelt-read: policy_loss = -(logp * batch.advs).mean()
    value_loss = (critic(batch.obs).squeeze(-1) - batch.returns.float()).pow(2).mean()
    entropy = -(torch.log_softmax(logits, -1) * torch.softmax(logits, -1)).sum(-1).mean()
    loss = policy_loss + 0.5 * value_loss - 0.01 * entropy
    optim.zero_grad()
    loss.backward()
    optim.step()
    return {"policy": policy_loss.item(), "value": value_loss.item()}


def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    actor = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 2))
    critic = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
    optim = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=1e-2)
    for epoch in range(5):
        rollout = collect(40, rng)
        with_returns = add_returns(rollout, gamma=0.9)
        with_adv = add_advantages(with_returns, critic)
        #! wrong-stage: with_adv = add_advantages(rollout, critic)
        for minibatch in with_adv.split(20):
            losses = learn(convert(minibatch, BatchWithAdvantages[Tensor]), actor, critic, optim)
            #! wrong-kind: losses = learn(minibatch, actor, critic, optim)
        print(epoch, {name: round(value, 4) for name, value in losses.items()})


if __name__ == "__main__":
    main()
