"""Recurrent PPO with an LSTM: minibatches are environments, which start from the state that the rollout started from."""
# wrong: """A minibatch of environments starts from the LSTM state of the first ones in the list, not from that of its own."""
# Source: CleanRL's ppo_atari_lstm.py: `(initial_lstm_state[0][:, mbenvinds], initial_lstm_state[1][:, mbenvinds])`.
from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import BatchRecord


@dataclass
class Args:
    num_envs: int = 6
    num_steps: int = 40
    hidden: int = 32
    gamma: float = 0.98
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    envs_per_batch: int = 2
    update_epochs: int = 3


class Steps(BatchRecord):
    """A row per environment."""

    obs: Tensor  # (E, T, 2)
    act: Tensor  # (E, T)
    logp: Tensor
    first: Tensor  # whether an episode begins with the observation
    adv: Tensor
    returns: Tensor


class Agent(nn.Module):
    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(2, hidden), nn.Tanh())
        self.lstm = nn.LSTM(hidden, hidden)
        self.actor, self.critic = nn.Linear(hidden, 2), nn.Linear(hidden, 1)

    def get_states(self, obs: Tensor, state: tuple[Tensor, Tensor], first: Tensor):
        """Of observations (E, T, 2): outputs (E, T, hidden) and the last state."""
        hidden, outputs = self.network(obs), []
        for t in range(obs.shape[1]):
            keep = (1.0 - first[:, t]).view(1, -1, 1)
            out, state = self.lstm(hidden[None, :, t], (keep * state[0], keep * state[1]))
            outputs.append(out[0])
        return torch.stack(outputs, 1), state


class Trainer:
    def __init__(self, args: Args, seed: int) -> None:
        self.args = args
        self.envs = gym.make_vec(
            "CartPole-v1", args.num_envs, vectorization_mode="sync",
            vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
        )
        self.agent = Agent(args.hidden)
        self.optim = torch.optim.Adam(self.agent.parameters(), 1e-3)
        self.obs, self.first = self.see(self.envs.reset(seed=seed)[0]), torch.ones(args.num_envs)
        self.state = (torch.zeros(1, args.num_envs, args.hidden), torch.zeros(1, args.num_envs, args.hidden))

    @staticmethod
    def see(obs) -> Tensor:
        return torch.as_tensor(obs[:, [0, 2]]) * torch.tensor([1.0, 10.0])

    @torch.no_grad()
    def collect(self):
        args, initial = self.args, self.state
        shape = args.num_envs, args.num_steps
        obs, act = torch.zeros(*shape, 2), torch.zeros(shape, dtype=torch.int64)
        logp, rew, val, first = (torch.zeros(shape) for _ in range(4))
        for t in range(args.num_steps):
            obs[:, t], first[:, t] = self.obs, self.first
            out, self.state = self.agent.get_states(self.obs[:, None], self.state, self.first[:, None])
            dist = Categorical(logits=self.agent.actor(out[:, 0]))
            act[:, t] = dist.sample()
            logp[:, t], val[:, t] = dist.log_prob(act[:, t]), self.agent.critic(out[:, 0])[:, 0]
            obs_next, reward, terminated, truncated, _ = self.envs.step(act[:, t].numpy())
            rew[:, t] = torch.as_tensor(reward)
            self.obs, self.first = self.see(obs_next), torch.as_tensor(terminated | truncated).float()
        out, _ = self.agent.get_states(self.obs[:, None], self.state, self.first[:, None])
        after, more = self.agent.critic(out[:, 0])[:, 0], 1.0 - self.first
        adv, last = torch.zeros(shape), torch.zeros(args.num_envs)
        for t in reversed(range(args.num_steps)):
            delta = rew[:, t] + args.gamma * more * after - val[:, t]
            adv[:, t] = last = delta + args.gamma * args.gae_lambda * more * last
            after, more = val[:, t], 1.0 - first[:, t]
        return Steps(obs=obs, act=act, logp=logp, first=first, adv=adv, returns=adv + val), initial

    def update(self, batch: Steps, initial: tuple[Tensor, Tensor]) -> dict[str, float]:
        args = self.args
        for _ in range(args.update_epochs):
            for envs in torch.randperm(len(batch)).split(args.envs_per_batch):
                mb = batch[envs]
                state = initial[0][:, envs], initial[1][:, envs]
                # wrong: state = initial[0][:, : len(envs)], initial[1][:, : len(envs)]
                out, _ = self.agent.get_states(mb.obs, state, mb.first)
                dist = Categorical(logits=self.agent.actor(out))
                ratio = (dist.log_prob(mb.act) - mb.logp).exp()
                adv = (mb.adv - mb.adv.mean()) / (mb.adv.std() + 1e-8)
                policy = -torch.min(ratio * adv, ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef) * adv).mean()
                value = (self.agent.critic(out).squeeze(-1) - mb.returns).pow(2).mean()
                self.optim.zero_grad()
                (policy + 0.05 * value - 0.01 * dist.entropy().mean()).backward()
                nn.utils.clip_grad_norm_(self.agent.parameters(), 0.5)
                self.optim.step()
        return {"policy": policy.item(), "value": value.item()}


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    trainer = Trainer(Args(), seed)
    return trainer.update, trainer.collect
