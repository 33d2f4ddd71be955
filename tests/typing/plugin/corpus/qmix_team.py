"""QMIX: agents' values are mixed by a network that sees the global state."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchRecord, MultiAgentBatch, SampleBatch, validate


class TeamStep(BatchRecord):
    """One row per time step; fields of agents are ``(N, agents, ...)``."""

    state: Tensor
    obs: Tensor
    act: Tensor
    rew: Tensor
    end: Tensor


class TeamTargets(TeamStep):
    target: Tensor


class Mixer(nn.Module):
    def __init__(self, n_agents: int, state_dim: int) -> None:
        super().__init__()
        self.weights, self.bias = nn.Linear(state_dim, n_agents), nn.Linear(state_dim, 1)

    def forward(self, q: Tensor, state: Tensor) -> Tensor:
        total: Tensor = (q * self.weights(state).abs()).sum(-1) + self.bias(state).squeeze(-1)
        return total


def play(n_agents: int, steps: int, rng: np.random.Generator) -> Batch:
    frames = []
    for t in range(steps):
        frame = Batch(obs=rng.normal(size=(n_agents, 3)).astype(np.float32), act=rng.integers(0, 2, n_agents))
        frame.state = frame.obs.reshape(-1)
        frame.rew = np.float32((frame.act == (frame.obs[:, 0] > 0)).mean())
        #! misspelt-read: frame.rew = np.float32((frame.actions == (frame.obs[:, 0] > 0)).mean())
        frame.end = t == steps - 1
        frames.append(frame)
    return Batch.stack(frames)


def per_agent(steps: Batch, names: list[str]) -> MultiAgentBatch:
    samples = {}
    for i, name in enumerate(names):
        own = Batch(obs=steps["obs"][:, i], actions=steps["act"][:, i])
        own.rewards = steps["rew"] / len(names)
        samples[name] = SampleBatch(obs=own.obs, actions=own.actions, rewards=own.rewards)
        #! misspelt-read: samples[name] = SampleBatch(obs=own.obs, actions=own.act, rewards=own.rewards)
    return MultiAgentBatch(samples, env_steps=len(steps))


class QMIX:
    def __init__(self, n_agents: int) -> None:
        self.q = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 2))
        self.mixer = Mixer(n_agents, 3 * n_agents)
        self.optim = torch.optim.Adam([*self.q.parameters(), *self.mixer.parameters()], lr=1e-2)
        self.log = Batch(loss=0.0, updates=0)

    @torch.no_grad()
    def add_targets(self, batch: TeamStep, gamma: float = 0.9) -> TeamTargets:
        best = self.mixer(self.q(batch.obs).amax(-1), batch.state)
        #! misspelt-read: best = self.mixer(self.q(batch.obs).amax(-1), batch.states)
        following = torch.cat([best[1:], best[-1:]]) * (~batch.end).float()
        #! old-name: following = torch.cat([best[1:], best[-1:]]) * (~batch.done).float()
        return TeamTargets(state=batch.state, obs=batch.obs, act=batch.act, rew=batch.rew, end=batch.end, target=batch.rew + gamma * following)
        #! forgotten-field: return TeamTargets(state=batch.state, obs=batch.obs, act=batch.act, rew=batch.rew, target=batch.rew + gamma * following)

    def learn(self, batch: TeamTargets) -> float:
        chosen = self.q(batch.obs).gather(-1, batch.act[..., None]).squeeze(-1)
        loss = (self.mixer(chosen, batch.state) - batch.target).pow(2).mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        self.log.updates += 1
        self.log.loss = 0.9 * self.log.loss + 0.1 * loss.item()
        return float(self.log.loss / (1 - 0.9 ** float(self.log.updates)))
        #! misspelt-read: return float(self.log.loss / (1 - 0.9 ** float(self.log.steps)))


def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    names = ["left", "right", "centre"]
    agent = QMIX(len(names))
    for episode in range(4):
        steps = play(len(names), 12, rng)
        split = per_agent(steps, names)
        batch = validate(steps.to_torch(), TeamStep)
        loss = agent.learn(agent.add_targets(batch))
        #! wrong-stage: loss = agent.learn(batch)
        rewards = {name: float(one["rewards"].sum()) for name, one in split.policy_batches.items()}
        print(f"{episode} {loss:.4f} {split.env_steps()} { {k: round(v, 3) for k, v in rewards.items()} }")


if __name__ == "__main__":
    main()
