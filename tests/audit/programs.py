"""Small learners that tests change in one place each."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from typedbatch import BatchRecord, RolloutBatch
from typedbatch.batch import Batch

ROWS = 32


class Step(BatchRecord):
    obs: Tensor
    act: Tensor
    adv: Tensor
    returns: Tensor
    logp_old: Tensor


class ActorCritic:
    """PPO without a class of its own for anything."""

    def __init__(self, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.actor, self.critic = nn.Linear(4, 2), nn.Linear(4, 1)
        self.optim = torch.optim.SGD([*self.actor.parameters(), *self.critic.parameters()], 0.1)

    def logp(self, obs: Tensor, act: Tensor) -> Tensor:
        return self.actor(obs).log_softmax(-1).gather(-1, act[:, None]).squeeze(-1)

    def value(self, obs: Tensor) -> Tensor:
        return self.critic(obs).squeeze(-1)

    def batch(self, rows: int = ROWS) -> Step:
        obs, act = torch.randn(rows, 4), torch.randint(2, (rows,))
        with torch.no_grad():
            old = self.logp(obs, act)
        return Step(obs=obs, act=act, adv=torch.randn(rows), returns=torch.randn(rows), logp_old=old)

    def loss(self, part: Any) -> Tensor:
        ratio = (self.logp(part.obs, part.act) - part.logp_old).exp()
        policy = -torch.min(ratio * part.adv, ratio.clamp(0.8, 1.2) * part.adv).mean()
        return policy + 0.5 * (self.value(part.obs) - part.returns).square().mean()

    def step(self, loss: Tensor) -> None:
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()

    def update(self, batch: Any) -> None:
        for _ in range(2):
            for part in batch.split(16):
                self.step(self.loss(part))


class Q:
    """Q-learning with a target network, on rows of which some end."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
        self.target = copy.deepcopy(self.net)
        self.optim = torch.optim.SGD(self.net.parameters(), 0.1)

    def batch(self) -> RolloutBatch[Tensor]:
        number = torch.arange(ROWS)
        return RolloutBatch[Tensor](
            obs=torch.randn(ROWS, 4), obs_next=torch.randn(ROWS, 4), act=torch.randint(2, (ROWS,)),
            rew=torch.randn(ROWS), terminated=number % 8 == 7, truncated=number % 8 == 3, info=Batch(),
        )  # fmt: skip

    def chosen(self, batch: Any) -> Tensor:
        return self.net(batch.obs).gather(-1, batch.act[:, None]).squeeze(-1)

    def step(self, values: Tensor, goal: Tensor) -> None:
        self.optim.zero_grad()
        functional.mse_loss(values, goal).backward()
        self.optim.step()

    def bootstrap(self, batch: Any) -> Tensor:
        with torch.no_grad():
            return 0.99 * ~batch.terminated * self.target(batch.obs_next).max(-1).values

    def update(self, batch: Any) -> None:
        goal = batch.rew + self.bootstrap(batch)
        self.step(self.chosen(batch), goal)
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.net.parameters(), strict=True):
                slow.lerp_(fast, 0.05)


class Tokens(BatchRecord):
    response_ids: Tensor
    response_mask: Tensor
    loss_mask: Tensor
    advantages: Tensor
    old_logp: Tensor


class Speaker:
    """A policy over tokens, each of which it draws from the one before."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Embedding(6, 8), nn.Linear(8, 6))
        self.optim = torch.optim.SGD(self.model.parameters(), 0.1)

    def logp(self, model: nn.Module, batch: Any) -> Tensor:
        first = torch.zeros(len(batch.response_ids), 1, dtype=torch.long)
        logits = model(torch.cat([first, batch.response_ids], 1))[:, :-1]
        return logits.log_softmax(-1).gather(-1, batch.response_ids[..., None])[..., 0]

    def batch(self) -> Tokens:
        there = torch.arange(6) < torch.tensor([[6], [4], [3], [5], [2], [6], [3], [4]])
        own = there & (torch.arange(6) != 1)  # the second token is written by a tool
        tokens = Tokens(
            response_ids=torch.randint(1, 6, there.shape), response_mask=there, loss_mask=own,
            advantages=torch.randn(len(there), 1).expand_as(there) * own, old_logp=torch.zeros(there.shape),
        )  # fmt: skip
        with torch.no_grad():
            tokens.old_logp = self.logp(self.model, tokens)
        return tokens

    def loss(self, part: Any, total: Any) -> Tensor:
        ratio = (self.logp(self.model, part) - part.old_logp).exp()
        gain = torch.min(ratio * part.advantages, ratio.clamp(0.8, 1.2) * part.advantages)
        return -(gain * part.loss_mask).sum() / total

    def update(self, batch: Any, micro: int = 4) -> None:
        self.optim.zero_grad()
        for part in batch.split(micro, shuffle=False):
            self.loss(part, batch.loss_mask.sum()).backward()
        self.optim.step()


def put(learner: Any, name: str, function: Callable[..., Any]) -> Any:
    """The learner with another method."""
    setattr(learner, name, function.__get__(learner))
    return learner
