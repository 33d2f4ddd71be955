"""Cells of a notebook, exported: REINFORCE on a bandit, nothing annotated."""

import numpy as np
import torch

from typedbatch import Batch

torch.manual_seed(0)
rng = np.random.default_rng(0)

# %% settings
cfg = Batch(lr=0.1, n_arms=5, batch_size=32)
cfg.means = np.linspace(-1, 1, 5)


# %% the environment
def pull(arms):
    return rng.normal(cfg.means[arms], 0.1)
    #! misspelt-read: return rng.normal(cfg.mean[arms], 0.1)


# %% the policy
logits = torch.zeros(int(cfg.n_arms), requires_grad=True)
#! misspelt-read: logits = torch.zeros(int(cfg.num_arms), requires_grad=True)
optim = torch.optim.SGD([logits], lr=float(cfg.lr))
#! misspelt-read: optim = torch.optim.SGD([logits], lr=float(cfg.learning_rate))


def sample(n):
    dist = torch.distributions.Categorical(logits=logits.expand(n, -1))
    data = Batch(dist=dist)
    data.act = data.dist.sample()
    data.rew = torch.as_tensor(pull(data.act.numpy()), dtype=torch.float32)
    #! misspelt-read: data.rew = torch.as_tensor(pull(data.action.numpy()), dtype=torch.float32)
    data.logp = data.dist.log_prob(data.act)
    return data


# %% training
history = []
baseline = 0.0
for step in range(30):
    batch = sample(int(cfg.batch_size))
    batch.adv = batch.rew - baseline
    loss = -(batch.adv * batch.logp).mean()
    #! misspelt-read: loss = -(batch.adv * batch.log_prob).mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
    baseline = 0.9 * baseline + 0.1 * batch.rew.mean().item()
    history.append(Batch(step=step, rew=batch.rew.mean().item(), ent=batch.dist.entropy().mean().item()))

# %% results
log = Batch.stack(history)
log.smooth = np.convolve(log.rew, np.ones(5) / 5, mode="same")
#! misspelt-read: log.smooth = np.convolve(log.reward, np.ones(5) / 5, mode="same")


def main():
    print(np.round(log.rew[-3:], 3), np.round(log.smooth[-3:], 3), np.round(log.ent[-1], 3))
    #! misspelt-read: print(np.round(log.rew[-3:], 3), np.round(log.smoothed[-3:], 3), np.round(log.ent[-1], 3))


if __name__ == "__main__":
    main()
