"""PPG: after every 2 PPO updates an auxiliary phase distils values into the policy net, with a KL that clones its old behavior."""
import torch
from torch import nn
from torch.distributions import Categorical, kl_divergence
from typedbatch import LogpOldBatch, cat
N, D, H, A, GAMMA, LAM, BETA = 64, 5, 32, 4, 0.99, 0.95, 1.0

def setup(seed: int = 0):
    torch.manual_seed(seed)
    trunk, pi, aux = nn.Sequential(nn.Linear(D, H), nn.Tanh()), nn.Linear(H, A), nn.Linear(H, 1)
    v = nn.Sequential(nn.Linear(D, H), nn.Tanh(), nn.Linear(H, 1))
    opt = torch.optim.Adam(nn.ModuleList([trunk, pi, aux, v]).parameters(), lr=1e-3)  # aux has no gradients in PPO's phase
    memory = []
    def policy(obs):
        return Categorical(logits=pi(trunk(obs)))
    def draw():
        u, obs = torch.rand(N), torch.randn(N, D)
        done = (terminated := u < 0.1) | (truncated := u > 0.95)
        obs_next = torch.where(done[:, None], torch.randn(N, D), torch.cat([obs[1:], torch.randn(1, D)]))
        with torch.no_grad():
            act = (dist := policy(obs)).sample()
            rew, value, value_next = obs.gather(1, act[:, None]).squeeze(1), v(obs).squeeze(1), v(obs_next).squeeze(1)
        delta, adv, last = rew + GAMMA * ~terminated * value_next - value, torch.zeros(N), 0.0
        for t in reversed(range(N)):
            adv[t] = last = delta[t] + GAMMA * LAM * ~done[t] * last
        return (LogpOldBatch(obs=obs, act=act, rew=rew, terminated=terminated, truncated=truncated, obs_next=obs_next, info={},
                             returns=adv + value, adv=adv, v_s=value, logp_old=dist.log_prob(act)),)
    def step(loss):
        [call() for call in (opt.zero_grad, loss.backward, opt.step)]
        return loss.item()
    def update(batch):
        for _ in range(2):
            ratio = ((dist := policy(batch.obs)).log_prob(batch.act) - batch.logp_old).exp()
            surrogate = torch.min(ratio * batch.adv, ratio.clamp(0.8, 1.2) * batch.adv).mean() + 0.01 * dist.entropy().mean()
            loss = step(0.5 * (v(batch.obs).squeeze(1) - batch.returns).pow(2).mean() - surrogate)
        memory.append(batch)
        if len(memory) == 2:
            old = policy((every := cat(memory)).obs).logits.detach()  # the policy before the auxiliary phase
            for rows in [rows for _ in range(2) for rows in torch.randperm(2 * N).split(N)]:
                values = torch.cat([aux(trunk(every.obs[rows])), v(every.obs[rows])], dim=1)
                clone = kl_divergence(Categorical(logits=old[rows]), policy(every.obs[rows])).mean()
                step(0.5 * (values - every.returns[rows, None]).pow(2).mean(0).sum() + BETA * clone)
            memory.clear()
        return {"loss": loss}
    return update, draw
