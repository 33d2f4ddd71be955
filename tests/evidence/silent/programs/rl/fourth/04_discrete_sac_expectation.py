"""Discrete SAC whose soft value is the expectation over actions: probabilities times values, summed over actions."""
# wrong: """The soft value averages probability-weighted values over actions instead of summing: 1/|A| of the expectation."""

import copy
import math

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from typedbatch import Batch, RolloutBatch
from typedbatch.buffers import ReplayBuffer


def mlp(out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, out))


def setup(seed: int = 0, gamma: float = 0.99, tau: float = 0.01, batch_size: int = 64):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    env = gym.make("CartPole-v1")
    actor, q1, q2 = mlp(2), mlp(2), mlp(2)
    q1_targ, q2_targ = copy.deepcopy(q1), copy.deepcopy(q2)
    log_alpha = torch.tensor(math.log(0.2), requires_grad=True)
    target_entropy = 0.7 * math.log(2)
    actor_optim = torch.optim.Adam(actor.parameters(), 3e-4)
    critic_optim = torch.optim.Adam([*q1.parameters(), *q2.parameters()], 1e-3)
    alpha_optim = torch.optim.Adam([log_alpha], 3e-4)

    buffer = ReplayBuffer[RolloutBatch](5_000, random_seed=seed)
    state = {"obs": env.reset(seed=seed)[0]}

    def interact(steps: int) -> None:
        for _ in range(steps):
            obs = state["obs"]
            with torch.no_grad():
                act = torch.distributions.Categorical(logits=actor(torch.as_tensor(obs))).sample().item()
            obs_next, rew, terminated, truncated, _ = env.step(act)
            buffer.add(RolloutBatch(obs=obs, act=np.array(act), rew=np.array(rew, np.float32), obs_next=obs_next,
                                    terminated=np.array(terminated), truncated=np.array(truncated), info=Batch()))
            state["obs"] = env.reset()[0] if terminated or truncated else obs_next

    def policy(obs: Tensor) -> tuple[Tensor, Tensor]:
        log_probs = F.log_softmax(actor(obs), -1)
        return log_probs.exp(), log_probs

    def draw() -> tuple[RolloutBatch]:
        interact(16)
        batch, _ = buffer.sample(batch_size, into=RolloutBatch[Tensor], dtype=torch.float32)
        return (batch,)

    def update(batch: RolloutBatch) -> dict[str, float]:
        alpha = log_alpha.exp().detach()
        with torch.no_grad():
            probs_next, logp_next = policy(batch.obs_next)
            q_next = torch.min(q1_targ(batch.obs_next), q2_targ(batch.obs_next))
            v_next = (probs_next * (q_next - alpha * logp_next)).sum(1)
            # wrong: v_next = (probs_next * (q_next - alpha * logp_next)).mean(1)
            target = batch.rew + gamma * (~batch.terminated) * v_next

        index = batch.act.unsqueeze(1)
        pred1, pred2 = q1(batch.obs).gather(1, index).squeeze(1), q2(batch.obs).gather(1, index).squeeze(1)
        critic_loss = F.mse_loss(pred1, target) + F.mse_loss(pred2, target)
        critic_optim.zero_grad()
        critic_loss.backward()
        critic_optim.step()

        probs, logp = policy(batch.obs)
        with torch.no_grad():
            q = torch.min(q1(batch.obs), q2(batch.obs))
        actor_loss = (probs * (alpha * logp - q)).sum(1).mean()
        actor_optim.zero_grad()
        actor_loss.backward()
        actor_optim.step()

        entropy = -(probs * logp).sum(1).detach()
        alpha_loss = (log_alpha * (entropy - target_entropy)).mean()
        alpha_optim.zero_grad()
        alpha_loss.backward()
        alpha_optim.step()

        with torch.no_grad():
            for net, targ in ((q1, q1_targ), (q2, q2_targ)):
                for p, p_targ in zip(net.parameters(), targ.parameters()):
                    p_targ.mul_(1 - tau).add_(tau * p)
        return {"critic": critic_loss.item(), "actor": actor_loss.item(), "alpha": log_alpha.exp().item(),
                "entropy": entropy.mean().item()}

    interact(500)
    return update, draw
