"""PPO with RND: episodic extrinsic and non-episodic intrinsic stream, each with its own value head, discount and advantages."""
import torch
from torch import nn
from torch.distributions import Categorical
from typedbatch import Batch
N, D, A, LAM, GAMMA, GAMMA_INT = 64, 5, 4, 0.95, 0.999, 0.99
def gae(rew, v, v_next, goes_on, gamma):
    delta, adv, last = rew + gamma * v_next - v, torch.zeros(N), 0.0
    for t in reversed(range(N)):
        adv[t] = last = delta[t] + gamma * LAM * goes_on[t] * last
    return adv

def setup(seed: int = 0):
    torch.manual_seed(seed)
    pi, critic, predictor, fixed = (nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, k)) for k in (A, 2, 8, 8))
    opt = torch.optim.Adam([*pi.parameters(), *critic.parameters(), *predictor.parameters()], lr=1e-3)
    sums = torch.zeros(1)
    def draw():  # consecutive steps of one environment, with normalized observations
        u, obs = torch.rand(N), torch.randn(N, D)
        done = (terminated := u < 0.1) | (truncated := u > 0.95)
        obs_next = torch.where(done[:, None], torch.randn(N, D), torch.cat([obs[1:], torch.randn(1, D)]))
        act = (dist := Categorical(logits=pi(obs).detach())).sample()
        return (Batch(obs=obs, act=act, rew=(act == 2) * obs[:, 1], terminated=terminated, truncated=truncated, obs_next=obs_next,
                      logp_old=dist.log_prob(act)),)
    def update(batch):
        nonlocal sums
        with torch.no_grad():
            bonus = (predictor(batch.obs_next) - fixed(batch.obs_next)).pow(2).mean(1)
            for b in bonus:  # discounted sums of the bonus, whose deviation scales it
                sums = torch.cat([sums, GAMMA_INT * sums[-1:] + b])[-2000:]
            v, v_final = critic(batch.obs), critic(batch.obs_next)  # below, the intrinsic stream goes on with the next episode
            adv_ext = gae(batch.rew, v[:, 0], v_final[:, 0] * ~batch.terminated, ~(batch.terminated | batch.truncated), GAMMA)
            adv_int = gae(bonus / sums.std(), v[:, 1], torch.cat([v[1:, 1], v_final[-1:, 1]]), torch.ones(N), GAMMA_INT)
            adv, returns = 2.0 * adv_ext + adv_int, v + torch.stack([adv_ext, adv_int], 1)
        for _ in range(2):
            dist = Categorical(logits=pi(batch.obs))
            ratio = (dist.log_prob(batch.act) - batch.logp_old).exp()
            value_loss = 0.5 * (critic(batch.obs) - returns).pow(2).sum(1).mean()
            loss = value_loss - torch.min(ratio * adv, ratio.clamp(0.9, 1.1) * adv).mean() - 0.001 * dist.entropy().mean()
            loss = loss + (predictor(batch.obs_next) - fixed(batch.obs_next).detach()).pow(2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        return {"loss": loss.item()}
    return update, draw
