"""Advantage-weighted regression, shared trunk, one optimizer: the weights are constants for the policy's gradient."""
# wrong: """The weights of the regression are not detached, so the policy loss also trains the value head."""

import math
from collections import deque

import torch
from torch import Tensor, nn
from torch.distributions import Independent, Normal

from typedbatch import BatchRecord, extend

GAMMA, TEMPERATURE, MAX_WEIGHT, LIMIT = 0.97, 0.5, 20.0, 40


class Landing(BatchRecord):
    """Steps of whole landings, one after another."""

    height_speed: Tensor
    thrust: Tensor
    rew: Tensor
    touched: Tensor
    cut: Tensor
    height_speed_next: Tensor


class LandingWithReturns(Landing):
    returns: Tensor


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(2, 48), nn.ELU(), nn.Linear(48, 48), nn.ELU())
        self.mu, self.v = nn.Linear(48, 1), nn.Linear(48, 1)
        self.log_std = nn.Parameter(torch.full((1,), -0.5))

    def forward(self, state):
        h = self.trunk(state)
        return Independent(Normal(self.mu(h), self.log_std.exp()), 1), self.v(h).squeeze(-1)


@torch.no_grad()
def land(model):
    """Play one landing, in which the ground is to be touched softly."""
    rows, height, speed = [], 1.0 + torch.rand(()).item(), -0.2 * torch.rand(()).item()
    for t in range(LIMIT):
        state = torch.tensor([height, speed])
        thrust = model(state[None])[0].sample()[0]
        burn = min(max(thrust.item(), 0.0), 1.0)
        speed += -0.06 + 0.12 * burn
        height = min(height + speed, 4.0)
        touched = height <= 0
        rew = -0.05 * burn - 0.02 + (2.0 * math.exp(-4 * abs(speed)) if touched else 0.0)
        cut = t == LIMIT - 1 and not touched
        rows.append((state, thrust, torch.tensor(rew), torch.tensor(touched), torch.tensor(cut),
                     torch.tensor([height, speed])))
        if touched:
            break
    names = ("height_speed", "thrust", "rew", "touched", "cut", "height_speed_next")
    return Landing(**{name: torch.stack(column) for name, column in zip(names, zip(*rows))})


@torch.no_grad()
def add_returns(batch, model):
    returns = torch.zeros_like(batch.rew)
    value_next = model(batch.height_speed_next)[1]
    running = torch.tensor(0.0)
    for i in reversed(range(len(batch))):
        if batch.touched[i]:
            running = torch.tensor(0.0)
        elif batch.cut[i]:
            running = value_next[i]
        running = batch.rew[i] + GAMMA * running
        returns[i] = running
    return extend(batch, LandingWithReturns, returns=returns)


def setup(seed=0):
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-3, momentum=0.9)
    landings = deque((land(model) for _ in range(6)), maxlen=12)

    def draw():
        for _ in range(3):
            landings.append(land(model))
        return (Landing.cat(list(landings)),)

    def update(batch):
        batch = add_returns(batch, model)
        totals = []
        for _ in range(2):
            for part in batch.split(64, rng=torch.default_generator):
                dist, value = model(part.height_speed)
                adv = part.returns - value.detach()
                # wrong: adv = part.returns - value
                weight = (adv / TEMPERATURE).exp().clamp(max=MAX_WEIGHT)
                policy_loss = -(weight * dist.log_prob(part.thrust)).mean()
                value_loss = 0.5 * (value - part.returns).square().mean()
                optimizer.zero_grad()
                (policy_loss + value_loss).backward()
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                totals.append((policy_loss.item(), value_loss.item(), weight.mean().item()))
        means = torch.tensor(totals).mean(0).tolist()
        return dict(zip(("policy", "value", "weight"), means))

    return update, draw
