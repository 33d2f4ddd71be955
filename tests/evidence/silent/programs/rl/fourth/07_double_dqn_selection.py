"""Double DQN: the online network chooses the action at obs_next, and the target network values it there."""
# wrong: """The online network chooses the action at obs, and the target network values it at obs_next."""

import copy

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import ActBatch, BatchWithReturns, ObsBatch, RolloutBatch, extend
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

GAMMA, EPS, SYNC = 0.99, 0.1, 20


def q_network() -> nn.Module:
    """Values of Taxi's six actions in each of its 500 states."""
    return nn.Sequential(nn.Embedding(500, 32), nn.ReLU(), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 6))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    online = q_network()
    target = copy.deepcopy(online)
    optim = torch.optim.AdamW(online.parameters(), 5e-4, amsgrad=True)
    updates = 0

    def explore(batch: ObsBatch) -> ActBatch:
        greedy = online(torch.as_tensor(batch.obs)).argmax(-1).numpy()
        return ActBatch(act=np.where(rng.random(len(greedy)) < EPS, rng.integers(0, 6, len(greedy)), greedy))

    buffer = VectorReplayBuffer[RolloutBatch](8_000, 4, random_seed=seed)
    collector = Collector(gym.make_vec("Taxi-v4", 4), explore)
    collector.reset(seed)
    collector.collect(buffer, n_step=600, random=True)

    def draw() -> tuple[RolloutBatch[Tensor], NDArray[np.intp]]:
        collector.collect(buffer, n_step=16)
        return buffer.sample(128, into=RolloutBatch[Tensor], dtype=torch.float32)

    @torch.no_grad()
    def process(batch: RolloutBatch[Tensor]) -> BatchWithReturns[Tensor]:
        best = online(batch.obs_next).argmax(-1, keepdim=True)
        # wrong: best = online(batch.obs).argmax(-1, keepdim=True)
        value = target(batch.obs_next).gather(-1, best).squeeze(-1)
        returns = batch.rew + GAMMA * value * ~batch.terminated
        return extend(batch, BatchWithReturns[Tensor], returns=returns)

    def update(batch: RolloutBatch[Tensor], slots: NDArray[np.intp]) -> dict[str, float]:
        nonlocal updates
        batch = process(batch)
        q = online(batch.obs).gather(-1, batch.act[:, None]).squeeze(-1)
        loss = nn.functional.smooth_l1_loss(q, batch.returns)
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(online.parameters(), 100)
        optim.step()
        updates += 1
        if updates % SYNC == 0:
            target.load_state_dict(online.state_dict())
        return {"loss": loss.item(), "q": q.mean().item()}

    return update, draw
