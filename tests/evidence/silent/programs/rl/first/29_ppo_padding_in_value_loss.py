"""Recurrent PPO (GRU) on CartPole, with whole episodes padded to one length."""
# wrong: """The value loss is a mean over padding too: it is divided by padded steps and pulls the value there to zero."""
# Source: masks of recurrent PPO (sb3-contrib: `th.mean(((returns - values) ** 2)[mask])`) are easily forgotten in one term.
from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActStateBatch, Batch, RolloutBatch, convert
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.episodes import episode_lengths
from typedbatch.sequences import mask, pad
from typedbatch.training import Collector, Losses, ObsStateBatch, add_gae

torch.set_num_threads(1)
HIDDEN = 32


class RecurrentActorCritic(nn.Module):
    """The actor has a memory; the critic has none."""

    def __init__(self) -> None:
        super().__init__()
        self.gru, self.head = nn.GRU(4, HIDDEN, batch_first=True), nn.Linear(HIDDEN, 2)
        self.critic = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 1))

    def act(self, batch: ObsStateBatch) -> ActStateBatch:
        obs, state = torch.as_tensor(batch.obs), torch.as_tensor(batch.state)
        out, state = self.gru(obs[:, None], state[None])
        act = Categorical(logits=self.head(out[:, 0])).sample()
        return ActStateBatch(act=act.numpy(), state=state[0].numpy())

    def dist(self, obs: Tensor) -> Categorical:
        return Categorical(logits=self.head(self.gru(obs)[0]))

    def value(self, obs: Tensor) -> Tensor:
        return self.critic(obs).squeeze(-1)


def masked_mean(values: Tensor, keep: Tensor) -> Tensor:
    return (values * keep).sum() / keep.sum()


class RecurrentPPO:
    def __init__(self, clip: float = 0.2, epochs: int = 4) -> None:
        self.model, self.clip, self.epochs = RecurrentActorCritic(), clip, epochs
        self.optim = torch.optim.Adam(self.model.parameters(), 1e-3)

    def process(self, rollout: RolloutBatch) -> tuple[Batch, Tensor]:
        """Episodes (E, T) with advantages and old log-probabilities, and where they have a step."""
        batch = convert(rollout, RolloutBatch[Tensor], dtype=torch.float32)
        lengths = episode_lengths(batch)
        with_adv = add_gae(batch, self.model.value, gamma=0.99, lam=0.95)
        with_adv.adv = (with_adv.adv - with_adv.adv.mean()) / (with_adv.adv.std() + 1e-8)
        padded, keep = Batch(pad(with_adv, lengths)), torch.as_tensor(mask(lengths)).float()
        with torch.no_grad():
            padded["logp_old"] = self.model.dist(padded.obs).log_prob(padded.act)
        return padded, keep

    def update(self, rollout: RolloutBatch) -> Losses:
        padded, keep = self.process(rollout)
        for _ in range(self.epochs):
            dist = self.model.dist(padded.obs)
            ratio = (dist.log_prob(padded.act) - padded.logp_old).exp()
            surrogate = torch.min(ratio * padded.adv, ratio.clamp(1 - self.clip, 1 + self.clip) * padded.adv)
            policy_loss = -masked_mean(surrogate, keep)
            value_loss = masked_mean((self.model.value(padded.obs) - padded.returns).pow(2), keep)
            # wrong: value_loss = (self.model.value(padded.obs) - padded.returns).pow(2).mean()
            entropy = masked_mean(dist.entropy(), keep)
            self.optim.zero_grad()
            (policy_loss + 0.5 * value_loss - 0.01 * entropy).backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
            self.optim.step()
        return {"policy": policy_loss.item(), "value": value_loss.item(), "entropy": entropy.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    ppo = RecurrentPPO()
    envs = gym.make_vec("CartPole-v1", 4)
    collector = Collector(envs, ppo.model.act, state=np.zeros(HIDDEN, np.float32))
    collector.reset(seed=seed)

    def draw() -> tuple[RolloutBatch]:
        buffer = VectorReplayBuffer[RolloutBatch](4 * 2_000, 4)
        collector.collect(buffer, n_episode=8)
        return (buffer[:],)

    return ppo.update, draw
