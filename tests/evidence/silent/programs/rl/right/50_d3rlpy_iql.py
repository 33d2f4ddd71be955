"""Implicit Q-learning in d3rlpy's manner: logged transitions with their own names, a standard scaler of observations, expectile V."""
import copy
from dataclasses import dataclass
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from typedbatch import Batch

GAMMA, EXPECTILE, TEMPERATURE, MAX_WEIGHT, TAU = 0.95, 0.8, 3.0, 100.0, 0.01

def make_dataset(rng, episodes=60, horizon=15):
    """A noisy controller drives a point to the origin: the episode terminates there, and times out otherwise."""
    rows = []
    for _ in range(episodes):
        x = rng.uniform(-2, 2, 2)
        for t in range(horizon):
            a = np.clip(-x + rng.normal(0, 0.7, 2), -1, 1)
            y = x + 0.4 * a
            done = bool(np.linalg.norm(y) < 0.3)
            rows.append((5 + 3 * x, a, -0.1 + done, 5 + 3 * y, float(done)))
            x = y
            if done:
                break
    names = ("observations", "actions", "rewards", "next_observations", "terminals")
    return Batch({name: np.asarray(column, np.float32) for name, column in zip(names, zip(*rows))})

@dataclass(frozen=True)
class StandardObservationScaler:
    mean: torch.Tensor
    std: torch.Tensor

    def transform(self, x):
        return (torch.as_tensor(x) - self.mean) / (self.std + 1e-3)

class IQLImpl:
    def __init__(self, scaler):
        self.scaler = scaler
        self.q_funcs = nn.ModuleList(nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1)) for _ in range(2))
        self.targ_q_funcs = copy.deepcopy(self.q_funcs)
        self.value_func = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 1))
        self.policy = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 2), nn.Tanh())
        self.logstd = nn.Parameter(torch.zeros(2))
        self.critic_optim = torch.optim.Adam([*self.q_funcs.parameters(), *self.value_func.parameters()], 1e-3)
        self.actor_optim = torch.optim.Adam([*self.policy.parameters(), self.logstd], 1e-3)

    def min_target_q(self, x, a):
        with torch.no_grad():
            return torch.stack([q(torch.cat([x, a], -1)) for q in self.targ_q_funcs]).amin(0).squeeze(-1)

    def compute_critic_loss(self, x, a, r, x_next, term):
        with torch.no_grad():
            y = r + GAMMA * (1 - term) * self.value_func(x_next).squeeze(-1)
        q_loss = sum(F.mse_loss(q(torch.cat([x, a], -1)).squeeze(-1), y) for q in self.q_funcs)
        diff = self.min_target_q(x, a) - self.value_func(x).squeeze(-1)
        weight = torch.where(diff.detach() > 0, EXPECTILE, 1 - EXPECTILE)
        return q_loss + (weight * diff.pow(2)).mean()

    def compute_actor_loss(self, x, a):
        with torch.no_grad():
            adv = self.min_target_q(x, a) - self.value_func(x).squeeze(-1)
            weight = (TEMPERATURE * adv).exp().clamp(max=MAX_WEIGHT)
        log_probs = torch.distributions.Normal(self.policy(x), self.logstd.exp()).log_prob(a).sum(-1)
        return -(weight * log_probs).mean()

    def update(self, batch):
        x, x_next = self.scaler.transform(batch.observations), self.scaler.transform(batch.next_observations)
        a, r, term = (torch.as_tensor(batch[name]) for name in ("actions", "rewards", "terminals"))
        losses = {}
        for name, optim, loss_fn in (
            ("critic", self.critic_optim, lambda: self.compute_critic_loss(x, a, r, x_next, term)),
            ("actor", self.actor_optim, lambda: self.compute_actor_loss(x, a)),
        ):
            optim.zero_grad()
            loss = loss_fn()
            loss.backward()
            optim.step()
            losses[name] = loss.item()
        for target, source in zip(self.targ_q_funcs.parameters(), self.q_funcs.parameters()):
            target.data.copy_(TAU * source.data + (1 - TAU) * target.data)
        return losses

def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    dataset = make_dataset(rng)
    obs = torch.as_tensor(dataset.observations)
    impl = IQLImpl(StandardObservationScaler(obs.mean(0), obs.std(0)))
    return impl.update, lambda: (dataset[rng.choice(len(dataset), 128, replace=False)],)
