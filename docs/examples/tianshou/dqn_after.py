"""DQN on CartPole with a typed buffer, and a loop of its own."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import nn

from typedbatch import Batch, RolloutBatch
from typedbatch.buffers import ReplayBuffer, compute_nstep_return


def main(steps: int = 600) -> nn.Module:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    env = gym.make("CartPole-v1")
    net, target = (nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2)) for _ in range(2))
    optim = torch.optim.Adam(net.parameters(), lr=1e-3)
    buffer = ReplayBuffer[RolloutBatch](size=1000)

    def target_q(buffer: ReplayBuffer[RolloutBatch], indices: np.ndarray) -> torch.Tensor:
        return target(torch.as_tensor(buffer[indices].obs_next)).max(1).values

    obs, _ = env.reset(seed=0)
    for step in range(steps):
        with torch.no_grad():
            greedy = int(net(torch.as_tensor(obs)).argmax())
        act = int(rng.integers(2)) if rng.random() < 0.2 else greedy
        obs_next, rew, terminated, truncated, _ = env.step(act)
        row = {"act": act, "rew": rew, "terminated": terminated, "truncated": truncated}
        arrays = {name: np.asarray(value) for name, value in row.items()}
        buffer.add(RolloutBatch(obs=obs, obs_next=obs_next, info=Batch(), **arrays))
        obs = env.reset()[0] if terminated or truncated else obs_next
        if step < 100:
            continue
        indices = rng.integers(len(buffer), size=32)
        batch = compute_nstep_return(buffer[indices], buffer, indices, target_q, gamma=0.99, n_step=3)
        q = net(torch.as_tensor(batch.obs))[torch.arange(32), torch.as_tensor(batch.act)]
        loss = (q - batch.returns).pow(2).mean()
        optim.zero_grad()
        loss.backward()
        optim.step()
        if step % 50 == 0:
            target.load_state_dict(net.state_dict())
    return net


if __name__ == "__main__":
    print(sum(float(p.detach().abs().sum()) for p in main().parameters()))
