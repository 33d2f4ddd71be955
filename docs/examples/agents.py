"""MAPPO and QMIX for three agents that have to meet: ``python docs/examples/agents.py mappo|qmix [seed]``.

Each agent is at one of seven places, sees its own and the mean of all, and the first one knows where to meet. The team
is rewarded for being near that place. MAPPO (arXiv:2103.01955) has a critic that sees all agents, and learns from joint
rollouts. QMIX (arXiv:1803.11485) mixes the values of the agents, and learns from joint rows in a buffer.
"""

from __future__ import annotations

import copy
import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, ObsBatch
from typedbatch.buffers import ReplayBuffer, compute_episodic_return
from typedbatch.training import JointRollout, Losses, ParallelCollector

PLACES, STEPS, AGENTS = 7, 12, ["a", "b", "c"]
FEATURES, GAMMA = 4 + len(AGENTS), 0.95


class Meeting:
    """An environment with the members of PettingZoo's ``ParallelEnv``."""

    def __init__(self) -> None:
        self.possible_agents, self.agents = [*AGENTS], list[str]()
        self.rng = np.random.default_rng()

    def reset(self, seed: int | None = None) -> tuple[dict[Any, Any], dict[Any, dict[str, Any]]]:
        self.rng = self.rng if seed is None else np.random.default_rng(seed)
        self.agents, self.now = [*AGENTS], 0
        self.at, self.goal = self.rng.integers(0, PLACES, len(AGENTS)), int(self.rng.integers(0, PLACES))
        return self.seen(), {agent: {} for agent in AGENTS}

    def seen(self) -> dict[Any, Any]:
        rows = np.zeros((len(AGENTS), FEATURES), np.float32)
        rows[:, 0], rows[:, 1], rows[:, 2] = self.at / PLACES, self.at.mean() / PLACES, self.now / STEPS
        rows[0, 3], rows[:, 4:] = self.goal / PLACES, np.eye(len(AGENTS))
        return dict(zip(AGENTS, rows, strict=True))

    def step(
        self, actions: dict[Any, Any], /
    ) -> tuple[dict[Any, Any], dict[Any, float], dict[Any, bool], dict[Any, bool], dict[Any, dict[str, Any]]]:
        moves = np.array([int(actions[agent]) - 1 for agent in AGENTS])
        self.at, self.now = np.clip(self.at + moves, 0, PLACES - 1), self.now + 1
        rew, late = -float(np.abs(self.at - self.goal).mean()), self.now == STEPS
        self.agents = [] if late else self.agents
        flags = dict.fromkeys(AGENTS, False), dict.fromkeys(AGENTS, late)
        return self.seen(), dict.fromkeys(AGENTS, rew), *flags, {agent: {} for agent in AGENTS}


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs))


class MAPPO:
    """Actor that all agents share, and critic that sees the observations of all of them."""

    def __init__(self) -> None:
        self.actor, self.critic = network(FEATURES, 3), network(FEATURES * len(AGENTS), 1)
        self.optim = torch.optim.Adam([*self.actor.parameters(), *self.critic.parameters()], 3e-3)

    def act(self, batch: ObsBatch) -> ActBatch:
        return ActBatch(act=Categorical(logits=self.actor(torch.as_tensor(batch.obs))).sample().numpy())

    def greedy(self, batch: ObsBatch) -> ActBatch:
        return ActBatch(act=self.actor(torch.as_tensor(batch.obs)).argmax(-1).numpy())

    def value(self, obs: Tensor) -> Tensor:
        value: Tensor = self.critic(obs.flatten(1)).expand(-1, len(AGENTS))
        return value

    def update(self, rows: JointRollout) -> Losses:
        obs, act, mask = torch.as_tensor(rows.obs), torch.as_tensor(rows.act), torch.as_tensor(rows.agent_mask)
        with torch.no_grad():
            old = Categorical(logits=self.actor(obs)).log_prob(act)
            now, after = self.value(obs), self.value(torch.as_tensor(rows.obs_next)) * ~torch.as_tensor(rows.ended)
        found = compute_episodic_return(rows, v_s_=after.numpy(), v_s=now.numpy(), gamma=GAMMA, gae_lambda=0.9)
        returns, adv = (torch.as_tensor(each, dtype=torch.float32) for each in found)
        adv = (adv - adv[mask].mean()) / (adv[mask].std() + 1e-8)
        for _ in range(8):
            dist = Categorical(logits=self.actor(obs))
            ratio = (dist.log_prob(act) - old).exp()
            gain = torch.minimum(ratio * adv, ratio.clamp(0.8, 1.2) * adv) + 0.01 * dist.entropy()
            loss = ((self.value(obs) - returns) ** 2 * 0.05 - gain)[mask].mean()
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
        return {"loss": loss.item()}


class QMIX:
    """Values of the actions of each agent, and a mixer whose weights are those of a state, and not below 0."""

    def __init__(self, seed: int) -> None:
        agents, state = len(AGENTS), FEATURES * len(AGENTS)
        self.nets = nn.ModuleDict(
            {
                "q": network(FEATURES, 3),
                "first": network(state, agents * 8),
                "last": network(state, 8),
                "bias": network(state, 1),
            }
        )
        self.slow = copy.deepcopy(self.nets)
        self.optim = torch.optim.Adam(self.nets.parameters(), 1e-3)
        self.eps, self.rng = 1.0, np.random.default_rng(seed)

    def greedy(self, batch: ObsBatch) -> ActBatch:
        return ActBatch(act=self.nets["q"](torch.as_tensor(batch.obs)).argmax(-1).numpy())

    def explore(self, batch: ObsBatch) -> ActBatch:
        act = self.greedy(batch).act
        random = self.rng.random(len(act)) < self.eps
        return ActBatch(act=np.where(random, self.rng.integers(0, 3, len(act)), act))

    def mixed(self, nets: nn.ModuleDict, values: Tensor, obs: Tensor) -> Tensor:
        state = obs.flatten(1)
        hidden = nn.functional.elu((values[:, None] @ nets["first"](state).view(-1, len(AGENTS), 8).abs()).squeeze(1))
        total: Tensor = (hidden * nets["last"](state).abs()).sum(-1) + nets["bias"](state).squeeze(-1)
        return total

    def update(self, rows: JointRollout) -> Losses:
        obs, after = torch.as_tensor(rows.obs), torch.as_tensor(rows.obs_next)
        with torch.no_grad():
            best = self.nets["q"](after).argmax(-1, keepdim=True)
            values = self.slow["q"](after).gather(-1, best).squeeze(-1) * ~torch.as_tensor(rows.ended)
            later = self.mixed(self.slow, values, after) * ~torch.as_tensor(rows.terminated)
            target = torch.as_tensor(rows.rew, dtype=torch.float32).mean(-1) + GAMMA * later
        chosen = self.nets["q"](obs).gather(-1, torch.as_tensor(rows.act)[..., None]).squeeze(-1)
        loss = nn.functional.smooth_l1_loss(
            self.mixed(self.nets, chosen * torch.as_tensor(rows.agent_mask), obs), target
        )
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        with torch.no_grad():
            for slow, fast in zip(self.slow.parameters(), self.nets.parameters(), strict=True):
                slow.lerp_(fast, 0.02)
        return {"loss": loss.item()}


def score(policy: Any, seed: int) -> float:
    """Return the mean return of an agent over 50 episodes."""
    return ParallelCollector(Meeting(), dict.fromkeys(AGENTS, policy)).evaluate(50, seed=seed + 1000)[AGENTS[0]].mean


def main(algorithm: str = "mappo", seed: int = 0, rounds: int = 40) -> None:
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    learner = MAPPO() if algorithm == "mappo" else QMIX(seed)
    policy = learner.act if isinstance(learner, MAPPO) else learner.explore
    collector = ParallelCollector(Meeting(), dict.fromkeys(AGENTS, policy))
    collector.reset(seed)
    buffer = ReplayBuffer[JointRollout](20_000, random_seed=seed)
    for number in range(1, rounds + 1):
        if isinstance(learner, MAPPO):
            losses = learner.update(collector.rollout(600))
        else:
            learner.eps = max(0.05, 1 - number / 20)
            collector.collect(buffer, 600)
            losses = [learner.update(buffer.sample(128)[0]) for _ in range(150)][-1]
        if number % 10 == 0:
            print(f"{600 * number:6} steps, mean return {score(learner.greedy, seed):6.2f}, loss {losses['loss']:.3f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "mappo", *map(int, sys.argv[2:]))
