"""Semi-gradient TD(0) on (B, T) windows with values[:, 1:] of one forward pass, no obs_next; learning rate warms up from 0."""
import torch
from torch import nn
from typedbatch import Batch

B, T, D, GAMMA = 8, 9, 6, 0.95

def setup(seed: int = 0):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    v = nn.Sequential(nn.Linear(D, 24), nn.ELU(), nn.Linear(24, 1))
    opt = torch.optim.SGD(v.parameters(), lr=0.05)
    warmup = torch.optim.lr_scheduler.LambdaLR(opt, lambda k: min(1.0, k / 5))  # the very first step has rate 0

    def draw():
        obs = torch.randn(B, T, D, generator=g).cumsum(1) / 3  # random walks; a reset is another point of the walk here
        u = torch.rand(B, T, generator=g)
        return (Batch(obs=obs, rew=obs.sum(-1).tanh(), terminated=u < 0.1, truncated=u > 0.95),)

    def update(batch):
        values = v(batch.obs).squeeze(-1)
        terminated, truncated = batch.terminated[:, :-1], batch.truncated[:, :-1]
        target = batch.rew[:, :-1] + GAMMA * values[:, 1:].detach() * ~terminated
        known = terminated | ~truncated  # after a truncated step the window goes on with another episode: no target
        loss = ((target - values[:, :-1]).pow(2) * known).sum() / known.sum()
        opt.zero_grad()
        loss.backward()
        opt.step()
        warmup.step()
        return {"loss": loss.item(), "lr": warmup.get_last_lr()[0]}

    return update, draw
