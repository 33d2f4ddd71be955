"""Model-based value expansion on Pendulum: an ensemble of learned models, targets of all horizons weighted by their variance (STEVE)."""
import copy
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from typedbatch import ActBatch, RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector

HORIZON, MODELS, GAMMA, TAU = 3, 3, 0.97, 0.02

def mlp(i, o, *tail):
    return nn.Sequential(nn.Linear(i, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, o), *tail)

class Steve:
    def __init__(self):
        self.models = [mlp(4, 4) for _ in range(MODELS)]  # change of the observation, and reward
        self.nets = (mlp(3, 1, nn.Tanh()), mlp(4, 1), mlp(4, 1))  # the policy and two critics
        self.ema = tuple(copy.deepcopy(net) for net in self.nets)
        self.model_optims = [torch.optim.Adam(m.parameters(), 1e-3) for m in self.models]
        self.actor_optim = torch.optim.Adam(self.nets[0].parameters(), 5e-4)
        self.critic_optim = torch.optim.Adam([p for q in self.nets[1:] for p in q.parameters()], 1e-3)

    def explore(self, batch):
        act = self.nets[0](torch.as_tensor(batch.obs))
        return ActBatch(act=(act + 0.2 * torch.randn_like(act)).clamp(-1, 1).numpy())

    @torch.no_grad()
    def target(self, b):
        """Candidates (horizons, models x critics, N): real first reward, then ``h`` imagined steps, then the slow critics."""
        pi, *critics = self.ema
        alive, candidates = (~b.terminated).float(), []
        states, rewards, discount = [b.obs_next] * MODELS, [b.rew] * MODELS, GAMMA
        for h in range(HORIZON + 1):
            actions = [pi(s) for s in states]
            inputs = [torch.cat([s, a], -1) for s, a in zip(states, actions)]
            candidates.append(torch.stack([r + discount * alive * q(x).squeeze(-1) for r, x in zip(rewards, inputs) for q in critics]))
            outs = [model(x) for model, x in zip(self.models, inputs)]
            rewards = [r + discount * alive * out[:, -1] for r, out in zip(rewards, outs)]
            states, discount = [s + out[:, :-1] for s, out in zip(states, outs)], discount * GAMMA  # this task has no end in between
        candidates = torch.stack(candidates)
        weight = 1 / (candidates.var(1) + 1e-4)
        return (candidates.mean(1) * weight).sum(0) / weight.sum(0)

    def update(self, b):
        truth, x = torch.cat([b.obs_next - b.obs, b.rew[:, None]], -1), torch.cat([b.obs, b.act], -1)
        losses = {"model": 0.0}
        for model, optim in zip(self.models, self.model_optims):
            rows = torch.randint(len(x), (len(x),))  # each model has its own resample of the batch
            optim.zero_grad()
            loss = (model(x[rows]) - truth[rows]).square().mean()
            loss.backward()
            optim.step()
            losses["model"] += loss.item() / MODELS
        y = self.target(b)
        self.critic_optim.zero_grad()
        critic_loss = sum((q(x).squeeze(-1) - y).square().mean() for q in self.nets[1:])
        critic_loss.backward()
        self.critic_optim.step()
        self.actor_optim.zero_grad()
        actor_loss = -self.nets[1](torch.cat([b.obs, self.nets[0](b.obs)], -1)).mean()
        actor_loss.backward()
        self.actor_optim.step()
        with torch.no_grad():
            for slow, fast in zip(self.ema, self.nets):
                for s, f in zip(slow.parameters(), fast.parameters()):
                    s += TAU * (f - s)
        return losses | {"critic": critic_loss.item(), "actor": actor_loss.item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    def make():
        env = gym.wrappers.RescaleAction(gym.make("Pendulum-v1", max_episode_steps=100), np.float32(-1), np.float32(1))
        return gym.wrappers.TransformReward(env, lambda r: float(r) / 10)
    steve, buffer = Steve(), VectorReplayBuffer[RolloutBatch](4000, 2, random_seed=seed)
    collector = Collector(gym.vector.SyncVectorEnv([make, make]), steve.explore)
    collector.reset(seed=seed)
    collector.collect(buffer, n_step=300, random=True)

    def draw():
        collector.collect(buffer, n_step=10)
        return (buffer.sample(96, into=RolloutBatch[torch.Tensor], dtype=torch.float32)[0],)

    return steve.update, draw
