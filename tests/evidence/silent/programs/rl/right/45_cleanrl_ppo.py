"""CleanRL's ppo.py on CartPole: (T, N) storage, flat b_* arrays, clipped value loss; time limits are bootstrapped in the rewards."""
from types import SimpleNamespace
import gymnasium as gym, numpy as np, torch, torch.nn as nn
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torch.distributions.categorical import Categorical
from typedbatch import Batch

args = SimpleNamespace(num_envs=4, num_steps=32, gamma=0.99, gae_lambda=0.95, update_epochs=3, num_minibatches=4, clip_coef=0.2, ent_coef=0.01, vf_coef=0.5, max_grad_norm=0.5, learning_rate=2.5e-3)

def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    nn.init.orthogonal_(layer.weight, std)
    nn.init.constant_(layer.bias, bias_const)
    return layer

class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(4, 32)), nn.Tanh(), layer_init(nn.Linear(32, 1), std=1.0))
        self.actor = nn.Sequential(layer_init(nn.Linear(4, 32)), nn.Tanh(), layer_init(nn.Linear(32, 2), std=0.01))
    def get_value(self, x):
        return self.critic(x)
    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        action = probs.sample() if action is None else action
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    envs = SyncVectorEnv([lambda: gym.make("CartPole-v1", max_episode_steps=40)] * args.num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)
    cur = {"obs": torch.tensor(envs.reset(seed=seed)[0]), "done": torch.zeros(args.num_envs)}

    @torch.no_grad()
    def draw():
        steps = []
        for _ in range(args.num_steps):
            obs, done = cur["obs"], cur["done"]
            action, logprob, _, value = agent.get_action_and_value(obs)
            next_obs, reward, terminations, truncations, infos = envs.step(action.numpy())
            reward = torch.tensor(reward, dtype=torch.float32)
            for i in np.flatnonzero(truncations & ~terminations):  # the episode was cut, not over
                reward[i] += args.gamma * agent.get_value(torch.tensor(infos["final_obs"][i])).item()
            steps.append(Batch(obs=obs, actions=action, logprobs=logprob, rewards=reward, dones=done, values=value.flatten()))
            cur["obs"], cur["done"] = torch.tensor(next_obs), torch.tensor(terminations | truncations).float()
        return Batch.stack(steps), cur["obs"], cur["done"]

    def update(storage, next_obs, next_done):
        with torch.no_grad():
            next_value = agent.get_value(next_obs).reshape(-1)
            advantages, lastgaelam = torch.zeros_like(storage.rewards), 0
            for t in reversed(range(len(storage.rewards))):
                last = t == len(storage.rewards) - 1
                nextnonterminal = 1.0 - (next_done if last else storage.dones[t + 1])
                nextvalues = next_value if last else storage.values[t + 1]
                delta = storage.rewards[t] + args.gamma * nextvalues * nextnonterminal - storage.values[t]
                advantages[t] = lastgaelam = delta + args.gamma * args.gae_lambda * nextnonterminal * lastgaelam
            returns = advantages + storage.values
        b_obs, b_logprobs, b_actions = storage.obs.reshape(-1, 4), storage.logprobs.reshape(-1), storage.actions.reshape(-1)
        b_advantages, b_returns, b_values = advantages.reshape(-1), returns.reshape(-1), storage.values.reshape(-1)
        b_inds = np.arange(len(b_obs))
        for _ in range(args.update_epochs):
            rng.shuffle(b_inds)
            for mb_inds in np.array_split(b_inds, args.num_minibatches):
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions[mb_inds])
                ratio = (newlogprob - b_logprobs[mb_inds]).exp()
                mb_advantages = b_advantages[mb_inds]
                mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
                pg_loss = torch.max(-mb_advantages * ratio, -mb_advantages * ratio.clamp(1 - args.clip_coef, 1 + args.clip_coef)).mean()
                newvalue = newvalue.view(-1)
                v_clipped = b_values[mb_inds] + (newvalue - b_values[mb_inds]).clamp(-args.clip_coef, args.clip_coef)
                v_loss = 0.5 * torch.max((newvalue - b_returns[mb_inds]) ** 2, (v_clipped - b_returns[mb_inds]) ** 2).mean()
                loss = pg_loss - args.ent_coef * entropy.mean() + v_loss * args.vf_coef
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), args.max_grad_norm)
                optimizer.step()
        return loss.item()

    return update, draw
