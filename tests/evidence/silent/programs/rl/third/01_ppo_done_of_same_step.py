"""PPO in one file, after CleanRL: storage of (T, E), hand-written GAE."""
# wrong: """GAE masks with the flag that was there before the step, dones[t], not with the one after it: other steps end an episode."""
# Source: CleanRL's ppo.py has `nextnonterminal = 1.0 - dones[t + 1]`, since dones[t] belongs to obs[t]; ports drop the + 1.
from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from gymnasium.vector import AutoresetMode
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import BatchRecord

STEPS, ENVS, GAMMA, LAMBDA, CLIP = 64, 4, 0.99, 0.95, 0.2


class Storage(BatchRecord):
    """A row per time step, and in it a column per environment."""

    obs: Tensor  # (T, E, 4)
    actions: Tensor  # (T, E)
    logprobs: Tensor
    rewards: Tensor
    dones: Tensor  # whether the episode before obs was over: the observation is the first of its episode
    values: Tensor


class Flat(BatchRecord):
    """A row per transition."""

    obs: Tensor
    actions: Tensor
    logprobs: Tensor
    advantages: Tensor
    returns: Tensor


def layer_init(layer: nn.Linear, std: float = 2**0.5) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, 0.0)
    return layer


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(4, 64)), nn.Tanh(), layer_init(nn.Linear(64, 1), 1.0))
        self.actor = nn.Sequential(layer_init(nn.Linear(4, 64)), nn.Tanh(), layer_init(nn.Linear(64, 2), 0.01))

    def get_value(self, x: Tensor) -> Tensor:
        return self.critic(x).squeeze(-1)

    def get_action_and_value(self, x: Tensor, action: Tensor | None = None):
        probs = Categorical(logits=self.actor(x))
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action), probs.entropy(), self.get_value(x)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs = gym.make_vec(
        "CartPole-v1", ENVS, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}
    )
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    now = {"obs": torch.as_tensor(envs.reset(seed=seed)[0]), "done": torch.zeros(ENVS)}

    @torch.no_grad()
    def draw() -> tuple[Storage, Tensor, Tensor]:
        obs, actions = torch.zeros(STEPS, ENVS, 4), torch.zeros(STEPS, ENVS, dtype=torch.int64)
        logprobs, rewards, dones, values = (torch.zeros(STEPS, ENVS) for _ in range(4))
        for step in range(STEPS):
            obs[step], dones[step] = now["obs"], now["done"]
            actions[step], logprobs[step], _, values[step] = agent.get_action_and_value(now["obs"])
            next_obs, reward, terminated, truncated, _ = envs.step(actions[step].numpy())
            rewards[step] = torch.as_tensor(reward)
            now["obs"] = torch.as_tensor(next_obs)
            now["done"] = torch.as_tensor(np.logical_or(terminated, truncated)).float()
        storage = Storage(obs=obs, actions=actions, logprobs=logprobs, rewards=rewards, dones=dones, values=values)
        return storage, now["obs"], now["done"]

    def gae(storage: Storage, next_obs: Tensor, next_done: Tensor) -> Tensor:
        with torch.no_grad():
            next_value = agent.get_value(next_obs)
        advantages, lastgaelam = torch.zeros_like(storage.rewards), 0
        for t in reversed(range(STEPS)):
            if t == STEPS - 1:
                nextnonterminal = 1.0 - next_done
                nextvalues = next_value
            else:
                nextnonterminal = 1.0 - storage.dones[t + 1]
                # wrong: nextnonterminal = 1.0 - storage.dones[t]
                nextvalues = storage.values[t + 1]
            delta = storage.rewards[t] + GAMMA * nextvalues * nextnonterminal - storage.values[t]
            advantages[t] = lastgaelam = delta + GAMMA * LAMBDA * nextnonterminal * lastgaelam
        return advantages

    def update(storage: Storage, next_obs: Tensor, next_done: Tensor) -> dict[str, float]:
        advantages = gae(storage, next_obs, next_done)
        flat = Flat(
            obs=storage.obs.flatten(0, 1),
            actions=storage.actions.flatten(),
            logprobs=storage.logprobs.flatten(),
            advantages=advantages.flatten(),
            returns=(advantages + storage.values).flatten(),
        )
        for _ in range(4):
            for mb in flat.split(64, rng=torch.default_generator):
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(mb.obs, mb.actions)
                ratio = (newlogprob - mb.logprobs).exp()
                adv = (mb.advantages - mb.advantages.mean()) / (mb.advantages.std() + 1e-8)
                pg_loss = torch.max(-adv * ratio, -adv * ratio.clamp(1 - CLIP, 1 + CLIP)).mean()
                v_loss = 0.5 * (newvalue - mb.returns).pow(2).mean()
                optimizer.zero_grad()
                (pg_loss + 0.5 * v_loss - 0.01 * entropy.mean()).backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        return {"pg_loss": pg_loss.item(), "v_loss": v_loss.item()}

    return update, draw
