"""CleanRL-style PPO on CartPole whose GAE cuts at the done flag of the same step (flags are those after the step)."""
# wrong: """GAE takes the done flag of step t + 1 for step t, although flags are stored after the step: masks are one off."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
from torch import Tensor
from torch.distributions.categorical import Categorical

from typedbatch import Batch, RolloutBatch


class Storage(RolloutBatch[Tensor]):
    logp_old: Tensor
    v_s: Tensor


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self, obs_dim, n_act):
        super().__init__()
        self.critic = nn.Sequential(
            layer_init(nn.Linear(obs_dim, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, 64)), nn.Tanh(), layer_init(nn.Linear(64, 1), std=1.0))
        self.actor = nn.Sequential(
            layer_init(nn.Linear(obs_dim, 64)), nn.Tanh(),
            layer_init(nn.Linear(64, 64)), nn.Tanh(), layer_init(nn.Linear(64, n_act), std=0.01))

    def get_value(self, x):
        return self.critic(x).squeeze(-1)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.get_value(x)


args = SimpleNamespace(
    num_envs=4, num_steps=64, gamma=0.99, gae_lambda=0.95, update_epochs=4, num_minibatches=4, clip_coef=0.2,
    ent_coef=0.01, vf_coef=0.5, max_grad_norm=0.5, learning_rate=2.5e-4)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    envs = gym.make_vec("CartPole-v1", args.num_envs, vectorization_mode="sync",
                        vector_kwargs={"autoreset_mode": gym.vector.AutoresetMode.SAME_STEP})
    agent = Agent(4, 2)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    current = {"obs": torch.tensor(envs.reset(seed=seed)[0])}

    def draw():
        shape = (args.num_steps, args.num_envs)
        obs, obs_next = torch.zeros(*shape, 4), torch.zeros(*shape, 4)
        actions, logprobs, values = torch.zeros(shape, dtype=torch.long), torch.zeros(shape), torch.zeros(shape)
        rewards = torch.zeros(shape)
        terminations, truncations = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.bool)
        for step in range(args.num_steps):
            obs[step] = current["obs"]
            with torch.no_grad():
                actions[step], logprobs[step], _, values[step] = agent.get_action_and_value(obs[step])
            after, reward, terminated, truncated, infos = envs.step(actions[step].numpy())
            current["obs"] = torch.tensor(after)
            real = after.copy()
            for i in np.flatnonzero(terminated | truncated):
                real[i] = infos["final_obs"][i]
            obs_next[step], rewards[step] = torch.tensor(real), torch.tensor(reward)
            terminations[step], truncations[step] = torch.tensor(terminated), torch.tensor(truncated)
        return (Storage(obs=obs, obs_next=obs_next, act=actions, rew=rewards, terminated=terminations,
                        truncated=truncations, info=Batch(), logp_old=logprobs, v_s=values),)

    def update(batch: Storage):
        with torch.no_grad():
            dones = (batch.terminated | batch.truncated).float()
            final_values = agent.get_value(batch.obs_next)
            rewards = batch.rew + args.gamma * final_values * (batch.truncated & ~batch.terminated)
            advantages = torch.zeros_like(rewards)
            lastgaelam = 0
            for t in reversed(range(args.num_steps)):
                if t == args.num_steps - 1:
                    nextnonterminal = 1.0 - dones[-1]
                    nextvalues = final_values[-1]
                else:
                    nextnonterminal = 1.0 - dones[t]
                    # wrong: nextnonterminal = 1.0 - dones[t + 1]
                    nextvalues = batch.v_s[t + 1]
                delta = rewards[t] + args.gamma * nextvalues * nextnonterminal - batch.v_s[t]
                advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * nextnonterminal * lastgaelam
            returns = advantages + batch.v_s
        b_obs, b_actions, b_logprobs = batch.obs.reshape(-1, 4), batch.act.reshape(-1), batch.logp_old.reshape(-1)
        b_advantages, b_returns = advantages.reshape(-1), returns.reshape(-1)
        b_inds = np.arange(len(b_obs))
        for _ in range(args.update_epochs):
            np.random.shuffle(b_inds)
            for mb_inds in np.split(b_inds, args.num_minibatches):
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions[mb_inds])
                ratio = (newlogprob - b_logprobs[mb_inds]).exp()
                mb_adv = b_advantages[mb_inds]
                mb_adv = (mb_adv - mb_adv.mean()) / (mb_adv.std() + 1e-8)
                pg_loss = torch.max(-mb_adv * ratio, -mb_adv * ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)).mean()
                v_loss = 0.5 * ((newvalue - b_returns[mb_inds]) ** 2).mean()
                loss = pg_loss - args.ent_coef * entropy.mean() + args.vf_coef * v_loss
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
        return {"pg": pg_loss.item(), "v": v_loss.item(), "entropy": entropy.mean().item()}

    np.random.seed(seed)
    return update, draw
