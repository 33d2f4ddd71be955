"""REINFORCE, no critic: moving-average baseline per step of the episode, actions of three discrete parts, SGD with maximize=True."""
import torch
from torch import nn
from torch.distributions import Categorical
from typedbatch import Batch

EPISODES, T, D, PARTS, GAMMA = 8, 8, 5, (3, 4, 2), 0.95

class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(D, 32), nn.Tanh())
        self.heads = nn.ModuleList(nn.Linear(32, n) for n in PARTS)

    def forward(self, obs):
        h = self.trunk(obs)
        return [Categorical(logits=head(h)) for head in self.heads]

def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, baseline = Policy(), torch.zeros(T)
    opt = torch.optim.SGD(policy.parameters(), lr=0.02, momentum=0.9, maximize=True)

    def draw():  # whole episodes of T steps, one after the other
        obs = torch.randn(EPISODES * T, D)
        act = torch.stack([dist.sample() for dist in policy(obs)], dim=1)  # (N, 3)
        rew = (act[:, 0] - 1) * obs[:, 0].sign() + 0.5 * (act[:, 2] == 1) - 0.1 * act[:, 1] + 1
        returns, later = torch.zeros(EPISODES, T), torch.zeros(EPISODES)
        for t in reversed(range(T)):
            returns[:, t] = later = rew.view(EPISODES, T)[:, t] + GAMMA * later
        t = torch.arange(T).repeat(EPISODES)
        return (Batch(obs=obs, act=act, rew=rew, t=t, terminated=t == T - 1, returns=returns.flatten()),)

    def update(batch):
        logp = sum(dist.log_prob(batch.act[:, part]) for part, dist in enumerate(policy(batch.obs)))
        objective = (logp * (batch.returns - baseline[batch.t])).mean()  # the baseline of earlier batches
        opt.zero_grad()
        objective.backward()
        opt.step()
        means = torch.zeros(T).index_add(0, batch.t, batch.returns) / batch.t.bincount(minlength=T)
        baseline.lerp_(means, 0.1)
        return {"objective": objective.item()}

    return update, draw
