"""Discrete CQL: the conservative term is logsumexp over actions minus the value of the dataset's action."""
# wrong: """The conservative term subtracts the mean value of all actions instead of that of the dataset's actions."""

from dataclasses import dataclass, field

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActBatch, BatchWithReturns, ObsBatch, RolloutBatch, convert
from typedbatch.buffers import ReplayBuffer
from typedbatch.training import Collector, add_nstep


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))


@dataclass
class CQL:
    buffer: ReplayBuffer
    alpha: float = 1.0
    gamma: float = 0.99
    tau: float = 0.01
    n: int = 3
    q: nn.Module = field(default_factory=network)
    q_slow: nn.Module = field(default_factory=network)

    def __post_init__(self) -> None:
        self.q_slow.load_state_dict(self.q.state_dict())
        self.optim = torch.optim.Adam(self.q.parameters(), 3e-4)

    def value(self, obs: np.ndarray) -> Tensor:
        """Double-Q value of the observation that the n steps lead to."""
        obs = torch.as_tensor(obs)
        return self.q_slow(obs).gather(-1, self.q(obs).argmax(-1, keepdim=True)).squeeze(-1)

    def process(self, batch: RolloutBatch, slots: np.ndarray) -> BatchWithReturns[Tensor]:
        with_returns = add_nstep(batch, self.buffer, slots, self.value, gamma=self.gamma, n=self.n)
        return convert(with_returns, BatchWithReturns[Tensor], dtype=torch.float32)

    def __call__(self, rows: RolloutBatch, slots: np.ndarray) -> dict[str, float]:
        batch = self.process(rows, slots)
        q_all = self.q(batch.obs)
        q_data = q_all.gather(1, batch.act[:, None]).squeeze(1)
        bellman = nn.functional.mse_loss(q_data, batch.returns)
        conservative = torch.logsumexp(q_all, dim=1).mean() - q_data.mean()
        # wrong: conservative = torch.logsumexp(q_all, dim=1).mean() - q_all.mean()
        self.optim.zero_grad()
        (0.5 * bellman + self.alpha * conservative).backward()
        nn.utils.clip_grad_norm_(self.q.parameters(), 1.0)
        self.optim.step()
        with torch.no_grad():
            for slow, fast in zip(self.q_slow.parameters(), self.q.parameters()):
                slow += self.tau * (fast - slow)
        return {"bellman": bellman.item(), "conservative": conservative.item(), "q": q_data.mean().item()}


def logged_steps(seed: int, steps: int = 2_000) -> RolloutBatch:
    """Steps of a clumsy operator, who leans the right way three times out of four."""
    rng = np.random.default_rng(seed)

    def operator(batch: ObsBatch) -> ActBatch:
        good = batch.obs[:, 2] + 0.5 * batch.obs[:, 3] > 0
        return ActBatch(act=np.where(rng.random(len(good)) < 0.25, ~good, good).astype(np.int64))

    collector = Collector(gym.make_vec("CartPole-v1", 4), operator)
    collector.reset(seed)
    return collector.rollout(n_step=steps)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    buffer = ReplayBuffer[RolloutBatch](4_000, random_seed=seed)
    buffer.extend(logged_steps(seed))
    learner = CQL(buffer)

    def update(rows, slots):
        return learner(rows, slots)

    def draw():
        return buffer.sample(128)

    return update, draw
