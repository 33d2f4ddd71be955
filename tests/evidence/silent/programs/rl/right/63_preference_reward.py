"""A reward model from preferences: pairs of padded segments, an ensemble by vmap whose members see bootstrapped rows, ties."""
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap
from torch.nn import functional as F
from typedbatch import Batch

K, B, L, OBS, ACT = 3, 32, 8, 3, 1

def setup(seed: int = 0):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    members = [nn.Sequential(nn.Linear(OBS + ACT, 32), nn.LeakyReLU(), nn.Linear(32, 1), nn.Tanh()) for _ in range(K)]
    skeleton = members[0]
    params, buffers = stack_module_state(members)
    optimizer = torch.optim.Adam(params.values(), lr=3e-3)

    def true_return(segment):
        return ((segment.obs[..., 0] - 0.5 * segment.act[..., 0] ** 2) * segment.mask).sum(-1)

    def segments():
        mask = (torch.arange(L) < torch.randint(4, L + 1, (B, 1), generator=g)).float()
        obs, act = torch.randn(B, L, OBS, generator=g), torch.rand(B, L, ACT, generator=g) * 2 - 1
        return Batch(obs=obs * mask[..., None], act=act * mask[..., None], mask=mask)

    def draw():
        one, two = segments(), segments()
        gap = true_return(two) - true_return(one)
        label = torch.where(gap.abs() < 0.3, 0.5, torch.bernoulli(torch.sigmoid(2 * gap), generator=g))  # 1: the second is better
        boot = torch.poisson(torch.ones(B, K), generator=g)  # how often each member's resample of the data has the row
        return (Batch(one=one, two=two, label=label, boot=boot),)

    def rewards(p, b, segment):
        x = torch.cat([segment["obs"], segment["act"]], -1)
        return functional_call(skeleton, (p, b), (x,)).squeeze(-1) * segment["mask"]

    def logits(p, b, one, two):
        r1, r2 = rewards(p, b, one), rewards(p, b, two)
        return r2.sum(-1) - r1.sum(-1), (r1.pow(2).sum() + r2.pow(2).sum()) / (one["mask"].sum() + two["mask"].sum())

    def update(batch):
        one, two = dict(batch.one.items()), dict(batch.two.items())
        z, size = vmap(logits, in_dims=(0, 0, None, None))(params, buffers, one, two)  # (K, B) and (K,)
        losses = F.binary_cross_entropy_with_logits(z, batch.label.expand(K, -1), reduction="none")
        weights = batch.boot.T
        loss = ((losses * weights).sum(1) / weights.sum(1)).sum() + 1e-3 * size.sum()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        decided = batch.label != 0.5
        accuracy = ((z.detach().mean(0) > 0) == (batch.label > 0.5))[decided].float().mean()
        return {"loss": loss.item(), "accuracy": accuracy.item()}

    return update, draw
