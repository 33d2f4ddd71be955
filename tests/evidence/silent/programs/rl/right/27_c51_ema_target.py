"""C51 with double action selection; the projection is a triangular kernel; an EMA class keeps the target network."""
import copy
import torch
from torch import nn
from typedbatch import RolloutBatch

N, D, A, ATOMS, LOW, HIGH, GAMMA = 64, 5, 3, 21, -5.0, 5.0, 0.95
SUPPORT, STEP = torch.linspace(LOW, HIGH, ATOMS), (HIGH - LOW) / (ATOMS - 1)

class EMA:
    def __init__(self, module, decay):
        self.decay, self.module, self.shadow = decay, module, copy.deepcopy(module).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self):
        for shadow, p in zip(self.shadow.parameters(), self.module.parameters()):
            shadow.mul_(self.decay).add_(p, alpha=1 - self.decay)

    def __call__(self, x):
        return self.shadow(x)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, A * ATOMS), nn.Unflatten(1, (A, ATOMS)))
    ema, opt, every = EMA(net, 0.99), torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-4), torch.arange(N)
    def draw():
        u, obs, act = torch.rand(N), torch.randn(N, D), torch.randint(A, (N,))
        return (RolloutBatch(obs=obs, act=act, rew=obs[:, 0] * (act - 1), terminated=u < 0.1, truncated=u > 0.95,
                             obs_next=torch.randn(N, D), info={}),)
    def update(batch):
        with torch.no_grad():
            best = (net(batch.obs_next).softmax(-1) @ SUPPORT).argmax(1)
            p_next = ema(batch.obs_next).softmax(-1)[every, best]  # (N, ATOMS)
            atoms = batch.rew[:, None] + GAMMA * (~batch.terminated)[:, None] * SUPPORT
            distance = (atoms.clamp(LOW, HIGH)[:, None, :] - SUPPORT[:, None]).abs() / STEP  # (N, to, from)
            target = ((1 - distance).clamp(min=0) * p_next[:, None, :]).sum(-1)
        loss = -(target * net(batch.obs)[every, batch.act].log_softmax(-1)).sum(-1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update()
        return {"loss": loss.item()}
    return update, draw
