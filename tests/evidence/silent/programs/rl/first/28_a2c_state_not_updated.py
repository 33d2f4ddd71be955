"""Actor-critic with its own loop over one CartPole and GAE."""
# wrong: """The loop does not move on to the next observation: the policy sees, and the rows store, the first one of the episode."""
# Source: RLMutation, Missing State Update (MSU), arXiv:2301.05651.
from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import Batch, RolloutBatch, convert, stack
from typedbatch.training import add_gae

torch.set_num_threads(1)


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.affine = nn.Linear(4, 64)
        self.action_head, self.value_head = nn.Linear(64, 2), nn.Linear(64, 1)

    def pi(self, obs: Tensor) -> Categorical:
        return Categorical(logits=self.action_head(torch.relu(self.affine(obs))))

    def value(self, obs: Tensor) -> Tensor:
        return self.value_head(torch.relu(self.affine(obs)))


class Runner:
    """Steps one environment and continues where it stopped."""

    def __init__(self, model: ActorCritic, seed: int) -> None:
        self.model, self.env = model, gym.make("CartPole-v1")
        self.obs, _ = self.env.reset(seed=seed)

    @torch.no_grad()
    def run(self, steps: int) -> RolloutBatch:
        rows = []
        for step in range(steps):
            act = int(self.model.pi(torch.as_tensor(self.obs)).sample())
            obs_next, rew, terminated, truncated, _ = self.env.step(act)
            ended, cut = terminated or truncated, step == steps - 1 and not terminated
            rows.append(RolloutBatch(
                obs=self.obs, act=np.array(act), rew=np.array(rew), obs_next=obs_next,
                terminated=np.array(terminated), truncated=np.array(truncated or cut), info=Batch()))
            self.obs = obs_next
            # wrong: without this line
            if ended:
                self.obs, _ = self.env.reset()
        return stack(rows)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = ActorCritic()
    runner = Runner(model, seed)
    optim = torch.optim.Adam(model.parameters(), 3e-3)

    def update(rollout: RolloutBatch) -> dict[str, float]:
        batch = add_gae(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), model.value, gamma=0.98, lam=0.9)
        adv = (batch.adv - batch.adv.mean()) / (batch.adv.std() + 1e-8)
        dist = model.pi(batch.obs)
        policy_loss = -(dist.log_prob(batch.act) * adv).mean()
        value_loss = nn.functional.smooth_l1_loss(model.value(batch.obs).squeeze(-1), batch.returns)
        optim.zero_grad()
        (policy_loss + value_loss - 0.01 * dist.entropy().mean()).backward()
        optim.step()
        return {"policy": policy_loss.item(), "value": value_loss.item()}

    return update, lambda: (runner.run(128),)
