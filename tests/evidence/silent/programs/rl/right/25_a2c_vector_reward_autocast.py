"""One-step A2C for three rewards with a multi-head critic, a discount per head, bfloat16 autocast around the networks only."""
import torch
from torch import nn
from torch.distributions import Categorical
from typedbatch import Batch

N, D, A = 64, 6, 3
GAMMAS, WEIGHTS = torch.tensor([0.9, 0.97, 0.99]), torch.tensor([1.0, 0.5, 0.2])

class Agent:
    def __init__(self):
        self.actor = nn.Sequential(nn.Linear(D, 32), nn.SiLU(), nn.Linear(32, A))
        self.critic = nn.Sequential(nn.Linear(D, 32), nn.SiLU(), nn.Linear(32, 3))
        self.opt = torch.optim.RMSprop([{"params": self.actor.parameters(), "lr": 5e-4},
                                        {"params": self.critic.parameters(), "lr": 2e-3}])

    def low(self, net, obs):  # weights and results are float32
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return net(obs).float()

    def draw(self):
        u, obs = torch.rand(N), torch.randn(N, D)
        with torch.no_grad():
            act = Categorical(logits=self.low(self.actor, obs)).sample()
        rew = torch.stack([obs[:, 0] * (act == 0), (act == 1).float() - 0.3, -obs.abs().mean(1)], dim=1)
        return (Batch(obs=obs, act=act, rew=rew, terminated=u < 0.1, truncated=u > 0.95, obs_next=obs + 0.1 * torch.randn(N, D)),)

    def update(self, batch):
        v = self.low(self.critic, batch.obs)  # (N, 3)
        with torch.no_grad():
            target = batch.rew + GAMMAS * self.low(self.critic, batch.obs_next) * (~batch.terminated)[:, None]
            adv = (target - v) @ WEIGHTS  # of the weighted sum of rewards
        dist = Categorical(logits=self.low(self.actor, batch.obs))
        actor_loss = -(dist.log_prob(batch.act) * adv).mean()
        critic_loss = (v - target).pow(2).sum(1).mean()
        self.opt.zero_grad()
        (actor_loss + critic_loss - 0.01 * dist.entropy().mean()).backward()
        self.opt.step()
        return {"actor": actor_loss.item(), "critic": critic_loss.item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    return (agent := Agent()).update, agent.draw
