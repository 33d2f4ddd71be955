"""PPO of rsl_rl: rollout storage by time, a critic with privileged observations, value clipping, step size adapted to the KL."""
import torch
import torch.nn as nn
from torch.distributions import Normal
from typedbatch import Batch

N, T, LIMIT = 16, 24, 20

class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(2, 32), nn.ELU(), nn.Linear(32, 1))
        self.critic = nn.Sequential(nn.Linear(3, 32), nn.ELU(), nn.Linear(32, 1))
        self.std = nn.Parameter(0.8 * torch.ones(1))

    def update_distribution(self, observations):
        mean = self.actor(observations)
        self.distribution = Normal(mean, self.std.expand_as(mean))

    def evaluate(self, critic_observations):
        return self.critic(critic_observations)

class Cart:
    """A point that must stay within +-2 under a constant wind, which only the critic sees."""
    def __init__(self):
        self.state, self.wind, self.t = torch.zeros(N, 2), torch.zeros(N, 1), torch.zeros(N)
        self.reset(torch.ones(N, dtype=torch.bool))
    def reset(self, ids):
        self.state[ids], self.wind[ids], self.t[ids] = 0.5 * torch.randn(int(ids.sum()), 2), 0.3 * torch.randn(int(ids.sum()), 1), 0
    def observe(self):
        return self.state.clone(), torch.cat([self.state, self.wind], -1)
    def step(self, actions):
        vel = self.state[:, 1:] + 0.1 * (actions.clamp(-2, 2) + self.wind)
        self.state, self.t = torch.cat([self.state[:, :1] + 0.1 * vel, vel], -1), self.t + 1
        fell = self.state[:, 0].abs() > 2
        last, time_outs = self.observe()[1], (self.t >= LIMIT) & ~fell
        rewards, dones = 1 - 0.5 * self.state[:, 0] ** 2 - 0.01 * actions[:, 0] ** 2, fell | time_outs
        self.reset(dones)
        return rewards, dones, time_outs, last

class PPO:
    def __init__(self, actor_critic, gamma=0.99, lam=0.95, clip_param=0.2, desired_kl=0.01, learning_rate=1e-3):
        self.actor_critic, self.gamma, self.lam, self.clip_param = actor_critic, gamma, lam, clip_param
        self.desired_kl, self.learning_rate = desired_kl, learning_rate
        self.optimizer = torch.optim.Adam(actor_critic.parameters(), lr=learning_rate)

    def compute_returns(self, storage, last_values):
        returns, advantage = torch.zeros_like(storage.values), 0
        for step in reversed(range(len(returns))):
            next_values = last_values if step == len(returns) - 1 else storage.values[step + 1]
            next_is_not_terminal = 1.0 - storage.dones[step].float()
            delta = storage.rewards[step] + next_is_not_terminal * self.gamma * next_values - storage.values[step]
            advantage = delta + next_is_not_terminal * self.gamma * self.lam * advantage
            returns[step] = advantage + storage.values[step]
        advantages = returns - storage.values
        return returns, (advantages - advantages.mean()) / (advantages.std() + 1e-8)

    def update(self, storage, last_critic_obs):
        with torch.no_grad():
            returns, advantages = self.compute_returns(storage, self.actor_critic.evaluate(last_critic_obs))
        flat = {k: v.flatten(0, 1) for k, v in storage.items()} | {"returns": returns.flatten(0, 1), "advantages": advantages.flatten(0, 1)}
        total = 0.0
        for _ in range(2):
            for ids in torch.randperm(len(flat["returns"])).chunk(4):
                b = Batch({k: v[ids] for k, v in flat.items()})
                self.actor_critic.update_distribution(b.observations)
                dist = self.actor_critic.distribution
                with torch.no_grad():
                    kl = (torch.log(dist.stddev / b.sigma) + (b.sigma**2 + (b.mu - dist.mean) ** 2) / (2 * dist.stddev**2) - 0.5).sum(-1).mean()
                if kl > 2 * self.desired_kl:
                    self.learning_rate = max(1e-5, self.learning_rate / 1.5)
                elif 0 < kl < self.desired_kl / 2:
                    self.learning_rate = min(1e-2, self.learning_rate * 1.5)
                for group in self.optimizer.param_groups:
                    group["lr"] = self.learning_rate
                ratio = torch.exp(dist.log_prob(b.actions).sum(-1) - b.actions_log_prob)
                adv = b.advantages.squeeze(-1)
                surrogate_loss = torch.max(-adv * ratio, -adv * ratio.clamp(1 - self.clip_param, 1 + self.clip_param)).mean()
                value = self.actor_critic.evaluate(b.privileged_observations)
                value_clipped = b.values + (value - b.values).clamp(-self.clip_param, self.clip_param)
                value_loss = torch.max((value - b.returns).pow(2), (value_clipped - b.returns).pow(2)).mean()
                loss = surrogate_loss + value_loss - 0.005 * dist.entropy().sum(-1).mean()
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.actor_critic.parameters(), 1.0)
                self.optimizer.step()
                total += loss.item()
        return total

def setup(seed: int = 0):
    torch.manual_seed(seed)
    env, alg = Cart(), PPO(ActorCritic())

    @torch.no_grad()
    def draw():
        transitions = []
        for _ in range(T):
            obs, critic_obs = env.observe()
            alg.actor_critic.update_distribution(obs)
            dist = alg.actor_critic.distribution
            actions = dist.sample()
            rewards, dones, time_outs, last = env.step(actions)
            rewards = rewards[:, None] + alg.gamma * alg.actor_critic.evaluate(last) * time_outs[:, None]
            transitions.append(Batch(
                observations=obs, privileged_observations=critic_obs, actions=actions, rewards=rewards, dones=dones[:, None],
                values=alg.actor_critic.evaluate(critic_obs), actions_log_prob=dist.log_prob(actions).sum(-1), mu=dist.mean, sigma=dist.stddev))
        return Batch.stack(transitions), env.observe()[1]

    return alg.update, draw
