"""A2C with PopArt: the critic's head is rescaled so that its outputs are preserved when the statistics of the targets move."""
import torch
from torch import nn
from torch.distributions import Categorical
from typedbatch import RolloutBatch
N, D, H, A, GAMMA, STEP = 64, 5, 32, 3, 0.95, 0.05
class PopArt(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk, self.head = nn.Sequential(nn.Linear(D, H), nn.Tanh()), nn.Linear(H, 1)
        self.register_buffer("mean", torch.tensor(0.0))
        self.register_buffer("square", torch.tensor(1.0))
    def std(self):
        return (self.square - self.mean**2).clamp(min=1e-4).sqrt()
    def forward(self, obs):  # normalized values
        return self.head(self.trunk(obs)).squeeze(-1)
    @torch.no_grad()
    def adapt(self, targets):
        mean, std = self.mean.clone(), self.std()
        self.mean.lerp_(targets.mean(), STEP)
        self.square.lerp_(targets.pow(2).mean(), STEP)
        self.head.weight.mul_(std / self.std())
        self.head.bias.mul_(std).add_(mean - self.mean).div_(self.std())

def setup(seed: int = 0):
    torch.manual_seed(seed)
    pi, critic = nn.Sequential(nn.Linear(D, H), nn.Tanh(), nn.Linear(H, A)), PopArt()
    opt = torch.optim.SGD([*pi.parameters(), *critic.parameters()], lr=0.05)
    def draw():
        u, obs = torch.rand(N), torch.randn(N, D)
        act = Categorical(logits=pi(obs).detach()).sample()
        return (RolloutBatch(obs=obs, act=act, rew=80 * obs[:, 0] * (act - 1) + 30, terminated=u < 0.1, truncated=u > 0.95,
                             obs_next=0.8 * obs + 0.6 * torch.randn(N, D), info={}),)
    def update(batch):
        with torch.no_grad():
            target = batch.rew + GAMMA * ~batch.terminated * (critic.std() * critic(batch.obs_next) + critic.mean)
        critic.adapt(target)
        v, normalized, dist = critic(batch.obs), (target - critic.mean) / critic.std(), Categorical(logits=pi(batch.obs))
        actor_loss = -(dist.log_prob(batch.act) * (normalized - v).detach()).mean() - 0.01 * dist.entropy().mean()
        opt.zero_grad()
        (actor_loss + (critic_loss := 0.5 * (v - normalized).pow(2).mean())).backward()
        opt.step()
        return {"actor": actor_loss.item(), "critic": critic_loss.item()}
    return update, draw
