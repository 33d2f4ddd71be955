"""Spinning Up's PPO: separate optimizers, train_pi_iters with a stop at target_kl; each rollout is learned from twice."""
import gymnasium as gym, torch, torch.nn as nn
from torch.distributions import Categorical
from torch.optim import Adam
from typedbatch import Batch, RolloutBatch, convert
from typedbatch.training import Collector, add_gae

def mlp(sizes, activation=nn.Tanh, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        layers += [nn.Linear(sizes[j], sizes[j + 1]), (activation if j < len(sizes) - 2 else output_activation)()]
    return nn.Sequential(*layers)

class MLPActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.pi, self.v = mlp([4, 32, 2]), mlp([4, 32, 1])
    def dist(self, obs):
        return Categorical(logits=self.pi(obs))
    def step(self, batch):
        dist = self.dist(torch.as_tensor(batch.obs))
        act = dist.sample()
        return Batch(act=act, logp=dist.log_prob(act))

def setup(seed: int = 0, clip_ratio=0.2, train_pi_iters=5, train_v_iters=8, target_kl=0.01, gamma=0.99, lam=0.97):
    torch.manual_seed(seed)
    ac = MLPActorCritic()
    pi_optimizer, vf_optimizer = Adam(ac.pi.parameters(), lr=3e-4), Adam(ac.v.parameters(), lr=3e-3)
    collector = Collector(gym.make_vec("CartPole-v1", 4), ac.step, lambda rollout, out: Batch(convert(rollout, RolloutBatch[torch.Tensor]), logp=out.logp))
    collector.reset(seed=seed)
    epoch = {"data": None, "left": 0}

    def draw():
        if epoch["left"] == 0:
            rows = add_gae(collector.rollout(160), lambda obs: ac.v(obs).squeeze(-1), gamma=gamma, lam=lam)
            adv = (rows.adv - rows.adv.mean()) / rows.adv.std()
            epoch.update(data=Batch(obs=rows.obs, act=rows.act, ret=rows.returns, adv=adv, logp=rows.logp), left=2)
        epoch["left"] -= 1
        return (epoch["data"],)

    def compute_loss_pi(data):
        logp = ac.dist(data.obs).log_prob(data.act)
        ratio = torch.exp(logp - data.logp)
        clip_adv = torch.clamp(ratio, 1 - clip_ratio, 1 + clip_ratio) * data.adv
        return -torch.min(ratio * data.adv, clip_adv).mean(), (data.logp - logp).mean().item()

    def update(data):
        for _ in range(train_pi_iters):
            pi_optimizer.zero_grad()
            loss_pi, kl = compute_loss_pi(data)
            if kl > 1.5 * target_kl:
                break
            loss_pi.backward()
            pi_optimizer.step()
        for _ in range(train_v_iters):
            vf_optimizer.zero_grad()
            loss_v = ((ac.v(data.obs).squeeze(-1) - data.ret) ** 2).mean()
            loss_v.backward()
            vf_optimizer.step()
        return dict(LossPi=loss_pi.item(), LossV=loss_v.item(), KL=kl)

    return update, draw
