"""QR-DQN on a prioritized batch with importance weights; the target is mixed through state_dict and load_state_dict."""
import copy
import torch
from torch import nn
from typedbatch import PrioBatch

N, D, A, QUANTILES, GAMMA, TAU = 64, 6, 4, 11, 0.97, 0.01
MIDPOINTS = (torch.arange(QUANTILES) + 0.5) / QUANTILES

class QRDQN:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(D, 48), nn.ReLU(), nn.Linear(48, A * QUANTILES), nn.Unflatten(1, (A, QUANTILES)))
        self.model_old = copy.deepcopy(self.model)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=5e-4)

    def update(self, batch):
        rows = torch.arange(len(batch.rew))
        with torch.no_grad():
            z_next = self.model_old(batch.obs_next)
            z_next = z_next[rows, z_next.mean(-1).argmax(-1)]
            target = batch.rew.unsqueeze(1) + GAMMA * z_next * batch.terminated.logical_not().unsqueeze(1)
        z = self.model(batch.obs)[rows, batch.act]
        error = target[:, None, :] - z[:, :, None]  # (N, quantile, sample of the target)
        huber = torch.where(error.abs() <= 1, 0.5 * error.pow(2), error.abs() - 0.5)
        pinball = (MIDPOINTS[:, None] - (error.detach() < 0).float()).abs() * huber
        per_row = pinball.mean(2).sum(1)
        loss = (per_row * batch.weight).mean()
        self.opt.zero_grad(set_to_none=False)
        loss.backward()
        self.opt.step()
        new, old = self.model.state_dict(), self.model_old.state_dict()
        self.model_old.load_state_dict({name: TAU * new[name] + (1 - TAU) * old[name] for name in new})
        return {"loss": loss.item(), "priority": per_row.max().item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    def draw():
        u, obs, priority = torch.rand(N, generator=g), torch.randn(N, D, generator=g), torch.rand(N, generator=g) + 0.1
        weight = (1 / priority).pow(0.4)
        return (PrioBatch(obs=obs, act=torch.randint(A, (N,), generator=g), rew=torch.randn(N, generator=g), terminated=u < 0.1,
                          truncated=u > 0.9, obs_next=torch.randn(N, D, generator=g), info={}, weight=weight / weight.max()),)
    return QRDQN().update, draw
