"""IQN: cosine embedding of sampled fractions, 8 against 6 of them, actions by 16; hard copy of the target every 2 updates."""
import copy
import math
import torch
from torch import nn
from typedbatch import RolloutBatch
N, D, H, A, COSINES, GAMMA = 48, 5, 32, 3, 16, 0.98
class IQN(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(D, H), nn.ReLU())
        self.embed = nn.Sequential(nn.Linear(COSINES, H), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(H, H), nn.ReLU(), nn.Linear(H, A))
        self.register_buffer("frequencies", math.pi * torch.arange(COSINES))

    def forward(self, obs, taus):  # (N, taus, A)
        phi = self.embed((taus[..., None] * self.frequencies).cos())
        return self.head(self.body(obs)[:, None] * phi)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    online, updates = IQN(), 0
    target_net = copy.deepcopy(online)
    opt = torch.optim.Adam(online.parameters(), lr=5e-4)
    def draw():
        u, obs, act = torch.rand(N), torch.randn(N, D), torch.randint(A, (N,))
        return (RolloutBatch(obs=obs, act=act, rew=obs.max(1).values - act, terminated=u < 0.1, truncated=u > 0.95,
                             obs_next=torch.randn(N, D), info={}),)
    def update(batch):
        nonlocal updates
        rows, taus = torch.arange(N), torch.rand(N, 8)
        with torch.no_grad():
            best = target_net(batch.obs_next, torch.rand(N, 16)).mean(1).argmax(1)
            z_next = target_net(batch.obs_next, torch.rand(N, 6))[rows, :, best]
            target = batch.rew[:, None] + GAMMA * ~batch.terminated[:, None] * z_next
        error = target[:, None, :] - online(batch.obs, taus)[rows, :, batch.act][:, :, None]  # (N, 8, 6)
        huber = torch.where(error.abs() < 1, 0.5 * error.pow(2), error.abs() - 0.5)
        loss = ((taus[:, :, None] - (error < 0).float()).abs() * huber).mean(2).sum(1).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        if (updates := updates + 1) % 2 == 0:
            target_net.load_state_dict(online.state_dict())
        return {"loss": loss.item()}
    return update, draw
