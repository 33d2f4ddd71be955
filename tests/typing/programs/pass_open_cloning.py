"""Behaviour cloning in torch from an expert's data set; a notebook-like script."""
# %% imports
from __future__ import annotations

import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchRecord, conforms, validate


class Expert(BatchRecord):
    obs: Tensor
    act: Tensor


# %% data
generator = torch.Generator().manual_seed(4)
raw = Batch(observations=torch.randn(200, 4, generator=generator))
raw.actions = (raw.observations.sum(1) > 0).long()
raw.rewards = raw.actions * 0.5
raw.meta_info = Batch(source="expert-v0", quality=[0.5, 0.7])

# %% rename
data = Batch(obs=raw.observations, act=raw.actions)
data.weight = torch.ones(len(data))
data.weight[raw.rewards == 0] = 0.5
print(data.weight.mean(), raw.meta_info.quality)

# %% split
train, test = data[:160], data[160:]
assert conforms(train, Expert)
print(len(train), len(test))


# %% model
def logits_of(net: nn.Module, obs: Tensor) -> Tensor:
    out: Tensor = net(obs)
    return out


def clone_loss(net: nn.Module, batch: Expert) -> Tensor:
    return nn.functional.cross_entropy(logits_of(net, batch.obs), batch.act)


def accuracy(net: nn.Module, batch: Expert) -> float:
    return (logits_of(net, batch.obs).argmax(-1) == batch.act).float().mean().item()


def weighted(net: nn.Module, batch: Batch) -> Tensor:
    each = nn.functional.cross_entropy(logits_of(net, batch.obs), batch.act, reduction="none")
    out: Tensor = (each * batch.weight).sum() / batch.weight.sum()
    return out


# %% train
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))
history = Batch(loss=[], acc=[])
losses: list[float] = []
for epoch in range(5):
    for mb in data[:160].split(32):
        loss = weighted(net, mb)
        parameters = list(net.parameters())
        for parameter, grad in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.data.sub_(0.3 * grad)
        losses.append(loss.item())
    history.loss = losses
    history.acc = accuracy(net, validate(test, Expert))
print(history.loss.shape, history.acc)

# %% evaluate
expert = validate(data, Expert)
print(accuracy(net, expert) > 0.5, clone_loss(net, expert[:10]).shape)
print(clone_loss(net, Expert(obs=raw.observations, act=raw.actions)).item() < 1.0)
best = max(data.split(50), key=lambda part: float(part.weight.sum()))
print(best.obs.shape)
del data.weight
print("weight" in data)
