"""PPO on a point that must stay near the origin, one file, in the style of CleanRL."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import Batch


@dataclass
class Args:
    seed: int = 1
    num_envs: int = 4
    num_steps: int = 16
    num_iterations: int = 3
    minibatch_size: int = 16
    update_epochs: int = 2
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip_coef: float = 0.2
    vf_coef: float = 0.5
    ent_coef: float = 0.01
    norm_adv: bool = True


class PointEnv:
    """A vector of points on a line; the action pushes left or right."""

    def __init__(self, num_envs: int, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.pos = self.rng.normal(size=num_envs)

    def step(self, action: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        self.pos = self.pos + 0.3 * (2 * action - 1) + 0.05 * self.rng.normal(size=self.pos.shape)
        done = np.abs(self.pos) > 3
        self.pos = np.where(done, 0.0, self.pos)
        return self.observe(), -np.abs(self.pos), done

    def observe(self) -> np.ndarray:
        return np.stack([self.pos, np.ones_like(self.pos)], axis=1).astype(np.float32)


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
        self.actor = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))

    def get_value(self, x: Tensor) -> Tensor:
        value: Tensor = self.critic(x)
        return value.squeeze(-1)

    def get_action_and_value(self, x: Tensor, action: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.get_value(x)


def main() -> None:
    args = Args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    envs = PointEnv(args.num_envs, args.seed)
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-3)

    size = (args.num_steps, args.num_envs)
    storage = Batch(
        obs=torch.zeros((*size, 2)),
        actions=torch.zeros(size, dtype=torch.long),
        logprobs=torch.zeros(size),
        rewards=torch.zeros(size),
        dones=torch.zeros(size),
        vals=torch.zeros(size),
    )
    next_obs = torch.as_tensor(envs.observe())
    next_done = torch.zeros(args.num_envs)

    for iteration in range(args.num_iterations):
        for step in range(args.num_steps):
            storage.obs[step] = next_obs
            #! misspelt-read: storage.observations[step] = next_obs
            storage.dones[step] = next_done
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
            storage.vals[step] = value
            storage.actions[step] = action
            storage.logprobs[step] = logprob
            #! misspelt-read: storage.log_probs[step] = logprob
            obs, reward, done = envs.step(action.numpy())
            storage.rewards[step] = torch.as_tensor(reward)
            next_obs, next_done = torch.as_tensor(obs), torch.as_tensor(done).float()

        with torch.no_grad():
            next_value = agent.get_value(next_obs)
        advantages = torch.zeros_like(storage.rewards)
        #! old-name: advantages = torch.zeros_like(storage.rew)
        lastgaelam = torch.zeros(args.num_envs)
        for t in reversed(range(args.num_steps)):
            last = t == args.num_steps - 1
            nonterminal = 1.0 - (next_done if last else storage.dones[t + 1])
            nextvalues = next_value if last else storage.vals[t + 1]
            delta = storage.rewards[t] + args.gamma * nextvalues * nonterminal - storage.vals[t]
            #! misspelt-read: delta = storage.rewards[t] + args.gamma * nextvalues * nonterminal - storage.val[t]
            lastgaelam = delta + args.gamma * args.gae_lambda * nonterminal * lastgaelam
            advantages[t] = lastgaelam

        flat = Batch(
            obs=storage.obs.reshape(-1, 2),
            actions=storage.actions.reshape(-1),
            logprobs=storage.logprobs.reshape(-1),
            advantages=advantages.reshape(-1),
            returns=(advantages + storage.vals).reshape(-1),
        )
        losses = []
        for _ in range(args.update_epochs):
            for mb in flat.split(args.minibatch_size):
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(mb.obs, mb.actions)
                #! batch-for-array: _, newlogprob, entropy, newvalue = agent.get_action_and_value(mb, mb.actions)
                ratio = (newlogprob - mb.logprobs).exp()
                #! misspelt-read: ratio = (newlogprob - mb.logprob).exp()
                adv = mb.advantages
                if args.norm_adv:
                    adv = (adv - adv.mean()) / (adv.std() + 1e-8)
                clipped = torch.clamp(ratio, 1 - args.clip_coef, 1 + args.clip_coef)
                pg_loss = torch.max(-adv * ratio, -adv * clipped).mean()
                v_loss = 0.5 * ((newvalue - mb.returns) ** 2).mean()
                #! later-stage: v_loss = 0.5 * ((newvalue - storage.returns) ** 2).mean()
                loss = pg_loss - args.ent_coef * entropy.mean() + args.vf_coef * v_loss
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        print(f"iteration {iteration} loss {np.mean(losses):.4f} return {storage.rewards.mean():.4f}")


if __name__ == "__main__":
    main()
