"""TD(0) on windows: the next value is that of the next step of the window; the batch has no obs_next."""
import torch
from torch import nn
from typedbatch import Batch


def setup(seed=0):
    torch.manual_seed(seed)
    critic = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
    optim = torch.optim.Adam(critic.parameters(), 1e-3)

    def draw():
        return (Batch(obs=torch.randn(16, 9, 4), rew=torch.randn(16, 9), terminated=torch.rand(16, 9) < 0.1),)

    def update(b):
        values = critic(b.obs).squeeze(-1)
        target = b.rew[:, :-1] + 0.99 * (~b.terminated[:, :-1]).float() * values[:, 1:].detach()
        loss = (values[:, :-1] - target).square().mean()
        optim.zero_grad()
        loss.backward()
        optim.step()

    return update, draw
