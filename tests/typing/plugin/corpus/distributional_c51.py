"""Categorical DQN: projection of the target distribution, on tensors."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch, ModelOutputBatch, ModelOutputBatchProtocol, ObsBatch, ObsBatchProtocol, RolloutBatch, RolloutBatchProtocol
from typedbatch.buffers import PrioritizedReplayBuffer


class C51Net(nn.Module):
    def __init__(self, n_act: int, n_atoms: int) -> None:
        super().__init__()
        self.n_act, self.n_atoms = n_act, n_atoms
        self.net = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, n_act * n_atoms))

    def forward(self, obs: Tensor) -> Tensor:
        return torch.softmax(self.net(obs).view(-1, self.n_act, self.n_atoms), dim=-1)


class C51:
    def __init__(self, n_act: int = 2, n_atoms: int = 11, v_max: float = 2.0) -> None:
        self.net = C51Net(n_act, n_atoms)
        self.support = torch.linspace(-v_max, v_max, n_atoms)
        self.step = float(self.support[1] - self.support[0])
        self.optim = torch.optim.Adam(self.net.parameters(), lr=1e-2)

    def forward(self, batch: ObsBatchProtocol[Tensor]) -> ModelOutputBatch[Tensor]:
        probs = self.net(batch.obs)
        q = (probs * self.support).sum(-1)
        return ModelOutputBatch(logits=probs, act=q.argmax(-1), state=None)
        #! forgotten-field: return ModelOutputBatch(logits=probs, act=q.argmax(-1))

    def target(self, batch: RolloutBatchProtocol[Tensor]) -> Tensor:
        with torch.no_grad():
            following = ObsBatch(obs=batch.obs_next, info=Batch())
            out = self.forward(following)
            #! wrong-argument: out = self.forward(batch.obs_next)
            probs = out.logits[torch.arange(len(out.act)), out.act]
            reach = batch.rew.float()[:, None] + 0.9 * (~batch.terminated).float()[:, None] * self.support
            #! misspelt-read: reach = batch.rew.float()[:, None] + 0.9 * (~batch.terminal).float()[:, None] * self.support
            reach = reach.clamp(float(self.support[0]), float(self.support[-1]))
            overlap = (1 - (reach[:, None] - self.support[None, :, None]).abs() / self.step).clamp(0, 1)
            return (overlap * probs[:, None]).sum(-1)

    def learn(self, tensors: RolloutBatchProtocol[Tensor], weight: Tensor) -> Tensor:
        goal = self.target(tensors)
        probs = self.net(tensors.obs)[torch.arange(len(tensors.act)), tensors.act]
        work = Batch(loss=-(goal * torch.log(probs + 1e-8)).sum(-1))
        total = (work.loss * weight).mean()
        #! misspelt-read: total = (work.losses * weight).mean()
        self.optim.zero_grad()
        total.backward()
        self.optim.step()
        errors: Tensor = work.loss.detach()
        return errors


def act(agent: C51, obs: np.ndarray, eps: float, rng: np.random.Generator) -> int:
    if rng.random() < eps:
        return int(rng.integers(2))
    seen = Batch(obs=obs[None], info=Batch())
    tensors = seen.to_torch()
    #! wrong-kind: tensors = seen
    with torch.no_grad():
        greedy = agent.forward(tensors)
    return int(greedy.act[0])


def greedy_values(out: ModelOutputBatchProtocol[Tensor], support: Tensor) -> Tensor:
    return (out.logits * support).sum(-1).amax(-1)
    #! misspelt-read: return (out.logit * support).sum(-1).amax(-1)


def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    agent = C51()
    buffer = PrioritizedReplayBuffer[RolloutBatch](256, alpha=0.6, beta=0.4, random_seed=0)
    obs = rng.normal(size=4).astype(np.float32)
    for step in range(120):
        action = act(agent, obs, 0.5, rng)
        obs_next = rng.normal(size=4).astype(np.float32)
        rew = float(np.sign(obs[0]) * (2 * action - 1))
        row = RolloutBatch(obs=obs, obs_next=obs_next, act=np.asarray(action), rew=np.asarray(rew), terminated=np.asarray(True), truncated=np.asarray(False), info=Batch())
        buffer.add(row)
        obs = obs_next
        if step >= 40 and step % 2 == 0:
            batch, index = buffer.sample(16)
            tensors = Batch(obs=torch.as_tensor(batch.obs), obs_next=torch.as_tensor(batch.obs_next), act=torch.as_tensor(batch.act), info=Batch())
            tensors.rew, tensors.terminated = torch.as_tensor(batch.rew), torch.as_tensor(batch.terminated)
            tensors.truncated = torch.as_tensor(batch.truncated)
            errors = agent.learn(tensors, torch.as_tensor(batch.weight).float())
            #! misspelt-read: errors = agent.learn(tensors, torch.as_tensor(batch.weights).float())
            buffer.update_weight(index, errors.numpy())
    probe = ObsBatch(obs=torch.eye(4), info=Batch())
    print([round(value, 3) for value in greedy_values(agent.forward(probe), agent.support).tolist()])


if __name__ == "__main__":
    main()
