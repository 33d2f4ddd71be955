"""Discrete CQL(H): Double DQN plus logsumexp minus data action, on minibatches of one fixed offline dataset; Polyak target."""
import copy
import numpy as np
import torch
from torch import nn
from typedbatch import RolloutBatch

SIZE, N, D, A, GAMMA, ALPHA = 500, 64, 6, 4, 0.99, 1.0

def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    obs, u = rng.normal(size=(SIZE, D)).astype(np.float32), rng.random(SIZE)
    act = np.where(rng.random(SIZE) < 0.7, obs[:, :A].argmax(1), rng.integers(A, size=SIZE))  # a good but noisy behavior
    rew = np.take_along_axis(obs, act[:, None], 1)[:, 0]
    dataset = RolloutBatch(obs=obs, act=act, rew=rew, terminated=u < 0.1, truncated=u > 0.95, info={},
                           obs_next=(obs + rng.normal(size=(SIZE, D))).astype(np.float32))
    q = nn.Sequential(nn.Linear(D, 32), nn.LayerNorm(32), nn.ReLU(), nn.Linear(32, A))
    q_slow = copy.deepcopy(q).requires_grad_(False)
    opt = torch.optim.AdamW(q.parameters(), lr=3e-4, weight_decay=1e-3)

    def draw():
        return (dataset[rng.choice(SIZE, N, replace=False)].to_torch(),)

    def update(batch):
        with torch.no_grad():
            best = q(batch.obs_next).argmax(1, keepdim=True)
            target = batch.rew + GAMMA * ~batch.terminated * q_slow(batch.obs_next).gather(1, best).squeeze(1)
        values = q(batch.obs)
        chosen = values.gather(1, batch.act.unsqueeze(1)).squeeze(1)
        conservative = (values.logsumexp(1) - chosen).mean()
        td = 0.5 * (chosen - target).pow(2).mean()
        opt.zero_grad()
        (td + ALPHA * conservative).backward()
        opt.step()
        with torch.no_grad():
            for slow, fast in zip(q_slow.parameters(), q.parameters()):
                slow.copy_(0.99 * slow + 0.01 * fast)
        return {"td": td.item(), "conservative": conservative.item()}

    return update, draw
