"""CleanRL-like PPO on CartPole with flattened tensors and index minibatches."""
# wrong: """The advantages of a minibatch are those of positions start:end, not those of the shuffled rows `mb`."""
# Source: in the spirit of RLMutation's Mangled (M) operator (arXiv:2301.05651), which breaks the link between the
# parts of an experience; in index-style code it comes from forgetting one `[mb_inds]`.
from __future__ import annotations

import gymnasium as gym
import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from typedbatch import ActBatch, ObsBatch, RolloutBatch, convert, extend
from typedbatch.training import Collector, add_gae

torch.set_num_threads(1)


class Choice(ActBatch[Tensor]):
    logp: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor


def layer_init(layer: nn.Linear, std: float = 2**0.5) -> nn.Linear:
    nn.init.orthogonal_(layer.weight, std)
    nn.init.zeros_(layer.bias)
    return layer


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(4, 32)), nn.Tanh(), layer_init(nn.Linear(32, 1), 1.0))
        self.actor = nn.Sequential(layer_init(nn.Linear(4, 32)), nn.Tanh(), layer_init(nn.Linear(32, 2), 0.01))

    def get_action(self, batch: ObsBatch) -> Choice:
        probs = Categorical(logits=self.actor(torch.as_tensor(batch.obs)))
        action = probs.sample()
        return Choice(act=action, logp=probs.log_prob(action))

    def evaluate(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        probs = Categorical(logits=self.actor(obs))
        return probs.log_prob(action), probs.entropy(), self.critic(obs).squeeze(-1)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    agent = Agent()
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    clip_coef, ent_coef, vf_coef, minibatch = 0.2, 0.01, 0.5, 64

    def record(rollout: RolloutBatch, choice: Choice) -> Rollout:
        return extend(convert(rollout, RolloutBatch[Tensor], dtype=torch.float32), Rollout, logp=choice.logp)

    collector = Collector(gym.make_vec("CartPole-v1", 4), agent.get_action, record)
    collector.reset(seed=seed)

    def update(rollout: Rollout) -> dict[str, float]:
        done = add_gae(rollout, agent.critic, gamma=0.99, lam=0.95)
        b_obs, b_act, b_logp = rollout.obs, rollout.act, rollout.logp
        b_adv, b_returns = done.adv, done.returns
        b_inds, clipfracs = np.arange(len(rollout)), []
        for _ in range(4):
            rng.shuffle(b_inds)
            for start in range(0, len(rollout), minibatch):
                end = start + minibatch
                mb_inds = b_inds[start:end]
                newlogp, entropy, newvalue = agent.evaluate(b_obs[mb_inds], b_act[mb_inds])
                logratio = newlogp - b_logp[mb_inds]
                ratio = logratio.exp()
                with torch.no_grad():
                    clipfracs.append(((ratio - 1.0).abs() > clip_coef).float().mean().item())
                mb_adv = b_adv[mb_inds]
                # wrong: mb_adv = b_adv[start:end]
                if len(mb_adv) > 1:
                    mb_adv = (mb_adv - mb_adv.mean()) / (mb_adv.std() + 1e-8)
                pg_loss = torch.max(-mb_adv * ratio, -mb_adv * ratio.clamp(1 - clip_coef, 1 + clip_coef)).mean()
                v_loss = 0.5 * ((newvalue - b_returns[mb_inds]) ** 2).mean()
                loss = pg_loss - ent_coef * entropy.mean() + v_loss * vf_coef
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        return {"policy": pg_loss.item(), "value": v_loss.item(), "clipfrac": float(np.mean(clipfracs))}

    return update, lambda: (collector.rollout(256),)
