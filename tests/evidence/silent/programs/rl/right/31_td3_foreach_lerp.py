"""TD3 with an action limit of 2, smoothing noise in its scale, actor and targets every 2 updates, targets by torch._foreach_lerp_."""
import copy
import torch
from torch import nn
from typedbatch import RolloutBatch
N, D, A, LIMIT, GAMMA = 64, 5, 2, 2.0, 0.99
class Critics(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = (nn.Sequential(nn.Linear(D + A, 32), nn.ReLU(), nn.Linear(32, 1)) for _ in range(2))

    def forward(self, obs, act):
        return [q(torch.cat([obs, act], dim=-1)).squeeze(-1) for q in (self.first, self.second)]
class TD3:
    def __init__(self):
        self.actor, self.critics = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, A), nn.Tanh()), Critics()
        self.online = nn.ModuleList([self.actor, self.critics])
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.critic_opt, self.updates = torch.optim.Adam(self.critics.parameters(), lr=1e-3), 0

    def update(self, batch):
        actor_target, critics_target = self.target
        self.updates += 1
        noise = (0.2 * torch.randn_like(batch.act)).clamp(-0.5, 0.5) * LIMIT
        act_next = (LIMIT * actor_target(batch.obs_next) + noise).clamp(-LIMIT, LIMIT)
        target = batch.rew + GAMMA * ~batch.terminated * torch.minimum(*critics_target(batch.obs_next, act_next))
        critic_loss = sum((q - target).pow(2).mean() for q in self.critics(batch.obs, batch.act))
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        if self.updates % 2 == 0:
            self.actor_opt.zero_grad()
            (-self.critics(batch.obs, LIMIT * self.actor(batch.obs))[0].mean()).backward()
            self.actor_opt.step()
            torch._foreach_lerp_([*self.target.parameters()], [p.detach() for p in self.online.parameters()], 0.005)
        return {"critic": critic_loss.item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    def draw():
        u, obs, act = torch.rand(N), torch.randn(N, D), (torch.rand(N, A) * 2 - 1) * LIMIT
        return (RolloutBatch(obs=obs, act=act, rew=obs[:, 0] - (act - obs[:, 1:3]).pow(2).sum(1), terminated=u < 0.1,
                             truncated=u > 0.95, obs_next=0.9 * obs + 0.2 * torch.randn(N, D), info={}),)
    return TD3().update, draw
