"""Memoryless actor with an LSTM critic over the history of observations and previous actions; padded whole episodes with a mask."""
import torch
from torch import nn
from torch.distributions import Categorical
from typedbatch import Batch

E, T, D, H, A, GAMMA = 12, 8, 4, 16, 3, 0.97

class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(D + A, H, batch_first=True), nn.Linear(H, 1)

    def forward(self, obs, act):  # (E, T), each from the past only, so padding at the end does no harm
        previous = nn.functional.one_hot(act, A).float().roll(1, dims=1)
        previous[:, 0] = 0.0  # there is none at the start of an episode
        return self.out(self.lstm(torch.cat([obs, previous], dim=-1))[0]).squeeze(-1)

def setup(seed: int = 0):
    torch.manual_seed(seed)
    actor, critic = nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, A)), Critic()
    opt = torch.optim.Adam([{"params": actor.parameters(), "lr": 1e-3}, {"params": critic.parameters(), "lr": 3e-3}])

    def draw():  # every episode ends by itself, after 3 to T steps
        mask = torch.arange(T) < (lengths := torch.randint(3, T + 1, (E, 1)))
        obs = torch.randn(E, T, D) * mask[..., None]
        with torch.no_grad():
            act = Categorical(logits=actor(obs)).sample() * mask
        rew = (obs.cumsum(1).gather(-1, act[..., None]).squeeze(-1)).tanh() * mask
        returns, later = torch.zeros(E, T), torch.zeros(E)
        for t in reversed(range(T)):
            returns[:, t] = later = rew[:, t] + GAMMA * later
        return (Batch(obs=obs, act=act, rew=rew, terminated=torch.arange(T) == lengths - 1, mask=mask, returns=returns),)

    def update(batch):
        values, dist = critic(batch.obs, batch.act), Categorical(logits=actor(batch.obs))
        adv = (batch.returns - values).detach()
        losses = 0.5 * (values - batch.returns).pow(2) - dist.log_prob(batch.act) * adv - 0.01 * dist.entropy()
        loss = losses[batch.mask].mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return {"loss": loss.item()}

    return update, draw
