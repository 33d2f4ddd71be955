"""Double DQN with n-step sums made by the collector, self.networks = [q, q_target], hard copy of the target every 3 updates."""
import copy
import torch
from torch import nn
from typedbatch import Batch

N, ROWS, D, A, GAMMA = 3, 64, 5, 4, 0.9

class Agent:
    def __init__(self):
        self.q = nn.Sequential(nn.Linear(D, 32), nn.ReLU(), nn.Linear(32, A))
        self.q_target = copy.deepcopy(self.q)
        self.networks = [self.q, self.q_target]
        self.opt, self.updates = torch.optim.Adam(self.q.parameters(), lr=1e-3), 0

    def update(self, batch):
        with torch.no_grad():
            best = self.networks[0](batch.obs_next).argmax(1, keepdim=True)
            bootstrap = self.networks[1](batch.obs_next).gather(1, best).squeeze(1)
            target = batch.rew + batch.discount * bootstrap.masked_fill(batch.terminated, 0.0)
        loss = nn.functional.smooth_l1_loss(self.q(batch.obs).gather(1, batch.act[:, None]).squeeze(1), target)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.updates += 1
        if self.updates % 3 == 0:
            self.networks[1].load_state_dict(self.networks[0].state_dict())
        return {"loss": loss.item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    def draw():
        steps = ROWS + N - 1
        obs, act, rew, u = torch.randn(steps + 1, D), torch.randint(A, (steps,)), torch.randn(steps), torch.rand(steps)
        terminated, truncated, final = u < 0.1, u > 0.95, torch.randn(steps, D)  # final observations of episodes
        sums, last, discount = torch.zeros(ROWS), torch.zeros(ROWS, dtype=torch.long), torch.zeros(ROWS)
        for t in range(ROWS):
            for k in range(N):  # no sum goes beyond the end of its episode
                sums[t], last[t], discount[t] = sums[t] + GAMMA**k * rew[t + k], t + k, GAMMA ** (k + 1)
                if terminated[t + k] or truncated[t + k]:
                    break
        obs_next = torch.where((terminated | truncated)[:, None], final, obs[1:])[last]
        return (Batch(obs=obs[:ROWS], act=act[:ROWS], rew=sums, discount=discount, obs_next=obs_next,
                      terminated=terminated[last], truncated=truncated[last]),)
    return Agent().update, draw
