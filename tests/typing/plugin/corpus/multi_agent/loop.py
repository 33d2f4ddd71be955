"""Episodes for all agents at once."""

from __future__ import annotations

import numpy as np

from multi_agent.agent import Agent
from multi_agent.game import Gathering
from typedbatch import Batch, BatchWithReturns, RolloutBatch, extend


def play(game: Gathering, agents: dict[str, Agent]) -> dict[str, RolloutBatch]:
    steps: dict[str, list[Batch]] = {name: [] for name in agents}
    obs, ended = game.reset(), False
    while not ended:
        actions = {name: agent.act(obs[name]) for name, agent in agents.items()}
        obs_next, rewards, ended = game.step(actions)
        for name in agents:
            step = Batch(obs=obs[name], act=actions[name], rew=rewards[name], obs_next=obs_next[name])
            step.update(terminated=ended, truncated=False)
            steps[name].append(step)
        obs = obs_next
    rollouts = {}
    for name, rows in steps.items():
        columns = Batch.stack(rows).to_dict()
        rollouts[name] = RolloutBatch(**columns, info=Batch())
    return rollouts


def with_returns(rollout: RolloutBatch, gamma: float = 0.9) -> BatchWithReturns:
    powers = gamma ** np.arange(len(rollout))
    returns = np.cumsum((rollout.rew * powers)[::-1])[::-1] / powers
    #! old-name: returns = np.cumsum((rollout.reward * powers)[::-1])[::-1] / powers
    return extend(rollout, BatchWithReturns, returns=returns)


def train(episodes: int) -> dict[str, list[float]]:
    agents = {name: Agent(name, seed) for seed, name in enumerate(["red", "blue"])}
    game = Gathering(list(agents), seed=9)
    scores: dict[str, list[float]] = {name: [] for name in agents}
    for _ in range(episodes):
        for name, rollout in play(game, agents).items():
            score = agents[name].learn(with_returns(rollout))
            #! wrong-stage: score = agents[name].learn(rollout)
            scores[name].append(score)
    return scores
