"""PPO with nested observations and a dict of rewards: an advantage for each, a shared encoder that only the values train."""
import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical
from typedbatch import Batch, BatchRecord, RolloutBatch, convert
from typedbatch.training import Collector, add_gae

WEIGHTS = {"task": 1.0, "energy": 0.3}

class Obs(BatchRecord):
    image: torch.Tensor
    vector: torch.Tensor

class Sight(gym.Env):
    """Keep the light in the middle of a strip of five pixels; moving costs energy; losing the light ends the episode."""
    observation_space = gym.spaces.Dict({"image": gym.spaces.Box(0, 1, (1, 1, 5), np.float32), "vector": gym.spaces.Box(-1, 1, (2,), np.float32)})
    action_space = gym.spaces.Discrete(3)
    def see(self):
        image = np.exp(-((np.arange(5) - 2 - self.place) ** 2)).astype(np.float32)[None, None]
        return {"image": image, "vector": np.array([self.wind, self.battery], np.float32)}
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.battery = self.np_random.uniform(-1, 1), 1.0
        self.wind = self.np_random.uniform(-0.5, 0.5)
        return self.see(), {"task": 0.0, "energy": 0.0}
    def step(self, action):
        self.place += 0.5 * (int(action) - 1) + self.wind
        self.battery = max(0.0, self.battery - 0.05 * (action != 1))
        rewards = {"task": float(1 - abs(self.place)), "energy": -float(action != 1)}
        return self.see(), rewards["task"], bool(abs(self.place) > 2.5 or self.battery <= 0), False, rewards

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.image, self.vector = nn.Sequential(nn.Flatten(), nn.Linear(5, 24), nn.Tanh()), nn.Sequential(nn.Linear(2, 8), nn.Tanh())
        self.values = nn.ModuleDict({name: nn.Linear(32, 1) for name in WEIGHTS})
        self.policy = nn.Sequential(nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 3))
    def encode(self, obs):
        return torch.cat([self.image(torch.as_tensor(obs.image)), self.vector(torch.as_tensor(obs.vector))], -1)
    def dist(self, features):
        return Categorical(logits=self.policy(features.detach()))

def setup(seed: int = 0, epochs=3, clip=0.2, gamma=0.95, lam=0.9):
    torch.manual_seed(seed)
    net = Net()
    optim = torch.optim.Adam(net.parameters(), lr=2e-3)

    def act(batch):
        dist = net.dist(net.encode(batch.obs))
        choice = dist.sample()
        return Batch(act=choice, logp=dist.log_prob(choice))

    def record(rollout, out):
        rows = convert(rollout, RolloutBatch[torch.Tensor, Obs], dtype=torch.float32)
        return Batch(rows, rew={name: rows.info[name] for name in WEIGHTS}, logp=out.logp)

    make = lambda: gym.wrappers.TimeLimit(Sight(), 25)
    collector = Collector(gym.vector.SyncVectorEnv([make] * 4), act, record, infos=list(WEIGHTS))
    collector.reset(seed=seed)

    def update(rollout):
        adv, returns = 0.0, {}
        for name, weight in WEIGHTS.items():
            scored = add_gae(Batch(rollout, rew=rollout.rew[name]), lambda obs: net.values[name](net.encode(obs)), gamma=gamma, lam=lam)
            adv, returns[name] = adv + weight * scored.adv, scored.returns
        data = Batch(obs=rollout.obs, act=rollout.act, logp=rollout.logp, adv=(adv - adv.mean()) / (adv.std() + 1e-8), returns=returns)
        for _ in range(epochs):
            for mb in data.split(64, merge_last=True, rng=torch.default_generator):
                features = net.encode(mb.obs)
                dist = net.dist(features)
                ratio = (dist.log_prob(mb.act) - mb.logp).exp()
                policy_loss = -torch.min(ratio * mb.adv, ratio.clamp(1 - clip, 1 + clip) * mb.adv).mean()
                value_losses = [(net.values[name](features).squeeze(-1) - mb.returns[name]).square().mean() for name in WEIGHTS]
                optim.zero_grad()
                (policy_loss + 0.5 * sum(value_losses) - 0.01 * dist.entropy().mean()).backward()
                optim.step()
        return {"policy": policy_loss.item(), **{name: v.item() for name, v in zip(WEIGHTS, value_losses)}}

    return update, lambda: (collector.rollout(256),)
