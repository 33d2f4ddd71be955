"""Average-reward actor-critic in a continuing task: differential TD error, reward rate from it, no discount, no flags in the batch."""
import torch
from torch import nn
from torch.distributions import Categorical
from typedbatch import Batch

N, D, A, ETA = 48, 4, 3, 0.1

class Differential(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, A))
        self.v = nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, 1))
        self.register_buffer("rate", torch.zeros(()))
        self.opt = torch.optim.SGD(self.parameters(), lr=0.02)
        self.state = torch.zeros(D)

    @torch.no_grad()
    def draw(self):  # the same stream goes on from draw to draw
        obs, act, rew, obs_next, pushes = [], [], [], [], torch.tensor([-0.5, 0.0, 0.5])
        for _ in range(N):
            obs.append(self.state)
            act.append(Categorical(logits=self.pi(self.state)).sample())
            rew.append(1 - self.state[0].abs() - 0.1 * pushes[act[-1]].abs())
            self.state = 0.9 * self.state.roll(1) + 0.3 * torch.randn(D) + pushes[act[-1]]
            obs_next.append(self.state)
        return (Batch(obs=torch.stack(obs), act=torch.stack(act), rew=torch.stack(rew), obs_next=torch.stack(obs_next)),)

    def update(self, batch):
        v, v_next = self.v(batch.obs).squeeze(1), self.v(batch.obs_next).squeeze(1)
        delta = (batch.rew - self.rate + v_next - v).detach()
        logp = Categorical(logits=self.pi(batch.obs)).log_prob(batch.act)
        loss = -(delta * v).mean() - (delta * logp).mean()  # the gradient of the first term is that of semi-gradient TD
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.rate += ETA * delta.mean()
        return {"loss": loss.item(), "rate": self.rate.item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    agent = Differential()
    return agent.update, agent.draw
