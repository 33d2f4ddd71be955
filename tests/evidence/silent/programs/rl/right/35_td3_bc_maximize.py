"""TD3+BC: the actor's optimizer has maximize=True, for lambda * Q minus the distance to the data; delayed actor, offline batch."""
import copy
import torch
from torch import nn
from typedbatch import RolloutBatch
N, D, A, GAMMA, ALPHA = 64, 6, 2, 0.99, 2.5
class TD3BC:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, A), nn.Tanh())
        self.q1, self.q2 = (nn.Sequential(nn.Linear(D + A, 32), nn.ReLU(), nn.Linear(32, 1)) for _ in range(2))
        self.pairs = [(copy.deepcopy(net), net) for net in (self.actor, self.q1, self.q2)]  # (slow, fast)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3, maximize=True)
        self.critic_opt, self.updates = torch.optim.Adam([*self.q1.parameters(), *self.q2.parameters()], lr=1e-3), 0

    def update(self, batch):
        self.updates += 1
        actor_slow, q1_slow, q2_slow = (slow for slow, _ in self.pairs)
        with torch.no_grad():
            noise = (0.2 * torch.randn(N, A)).clamp(-0.5, 0.5)
            x_next = torch.cat([batch.obs_next, (actor_slow(batch.obs_next) + noise).clamp(-1, 1)], dim=1)
            bootstrap = torch.minimum(q1_slow(x_next), q2_slow(x_next)).squeeze(1)
            target = (batch.rew + GAMMA * (1 - batch.terminated.float()) * bootstrap).unsqueeze(1)  # (N, 1) as the critics
        x = torch.cat([batch.obs, batch.act], dim=1)
        critic_loss = nn.functional.mse_loss(self.q1(x), target) + nn.functional.mse_loss(self.q2(x), target)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        if self.updates % 2 == 0:
            q = self.q1(torch.cat([batch.obs, act := self.actor(batch.obs)], dim=1))
            objective = ALPHA / q.abs().mean().detach() * q.mean() - (act - batch.act).pow(2).mean()
            self.actor_opt.zero_grad()
            objective.backward()
            self.actor_opt.step()
            for slow, fast in ((s, f) for nets in self.pairs for s, f in zip(*(net.parameters() for net in nets))):
                slow.data += 0.005 * (fast.data - slow.data)
        return {"critic": critic_loss.item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    def draw():
        u, obs = torch.rand(N), torch.randn(N, D)
        act = (obs[:, :A] + 0.3 * torch.randn(N, A)).tanh()
        return (RolloutBatch(obs=obs, act=act, rew=act.sum(1) - obs[:, 2].abs(), terminated=u < 0.1, truncated=u > 0.95,
                             obs_next=obs + 0.2 * torch.randn(N, D), info={}),)
    return TD3BC().update, draw
