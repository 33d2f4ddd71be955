"""A2C on CartPole with one update per rollout."""
# wrong: """The advantage in the policy loss is not detached, so the policy loss also trains the critic."""
# Source: the usual A2C/PyTorch-examples question "do I need to detach the advantage"; RLMutation calls the family ILF.
from __future__ import annotations

import gymnasium as gym
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, BatchWithReturns, ObsBatch, RolloutBatch, convert, extend
from typedbatch.buffers import compute_episodic_return
from typedbatch.training import Collector, Losses

torch.set_num_threads(1)


class A2C:
    """Two heads, one optimizer."""

    def __init__(self, gamma: float = 0.99, vf_coef: float = 0.5, ent_coef: float = 0.01) -> None:
        self.gamma, self.vf_coef, self.ent_coef = gamma, vf_coef, ent_coef
        self.policy = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
        self.value = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1))
        self.params = list(self.policy.parameters()) + list(self.value.parameters())
        self.optim = torch.optim.RMSprop(self.params, 7e-4, alpha=0.99, eps=1e-5)

    def act(self, batch: ObsBatch) -> ActBatch[Tensor]:
        return ActBatch[Tensor](act=Categorical(logits=self.policy(torch.as_tensor(batch.obs))).sample())

    def process(self, batch: RolloutBatch[Tensor]) -> BatchWithReturns[Tensor]:
        with torch.no_grad():
            v, v_next = self.value(batch.obs).squeeze(-1), self.value(batch.obs_next).squeeze(-1)
        returns, _ = compute_episodic_return(batch, v_s=v, v_s_=v_next, gamma=self.gamma, gae_lambda=1.0)
        return extend(batch, BatchWithReturns[Tensor], returns=returns)

    def learn(self, batch: BatchWithReturns[Tensor]) -> Losses:
        values = self.value(batch.obs).squeeze(-1)
        advantages = batch.returns - values
        value_loss = advantages.pow(2).mean()
        dist = Categorical(logits=self.policy(batch.obs))
        policy_loss = -(dist.log_prob(batch.act) * advantages.detach()).mean()
        # wrong: policy_loss = -(dist.log_prob(batch.act) * advantages).mean()
        entropy = dist.entropy().mean()
        loss = policy_loss + self.vf_coef * value_loss - self.ent_coef * entropy
        self.optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, 0.5)
        self.optim.step()
        return {"policy": policy_loss.item(), "value": value_loss.item(), "entropy": entropy.item()}

    def update(self, batch: RolloutBatch[Tensor]) -> Losses:
        return self.learn(self.process(batch))


def setup(seed: int = 0):
    torch.manual_seed(seed)
    a2c = A2C()

    def record(rollout: RolloutBatch, choice: ActBatch[Tensor]) -> RolloutBatch[Tensor]:
        return convert(rollout, RolloutBatch[Tensor], dtype=torch.float32)

    collector = Collector(gym.make_vec("CartPole-v1", 8), a2c.act, record)
    collector.reset(seed=seed)
    return a2c.update, lambda: (collector.rollout(128),)
