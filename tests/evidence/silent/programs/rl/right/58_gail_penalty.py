"""GAIL with a gradient penalty on CartPole: two batches, a discriminator step, then PPO on its rewards with fresh advantages."""
import gymnasium as gym
import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F
from typedbatch import ActBatch, Batch, RolloutBatch, convert
from typedbatch.training import Collector, add_gae

def net(inputs, outputs):
    return nn.Sequential(nn.Linear(inputs, 32), nn.Tanh(), nn.Linear(32, outputs))

def pairs(obs, act):
    return torch.cat([obs, F.one_hot(act, 2).float()], -1)

def setup(seed: int = 0, disc_steps=2, epochs=3, penalty=10.0):
    torch.manual_seed(seed)
    parts = nn.ModuleDict({"policy": net(4, 2), "value": net(4, 1), "disc": net(6, 1)})
    disc_opt = torch.optim.Adam(parts["disc"].parameters(), lr=1e-3, betas=(0.5, 0.9))
    gen_opt = torch.optim.Adam([*parts["policy"].parameters(), *parts["value"].parameters()], lr=1e-3)

    def policy(batch):
        dist = Categorical(logits=parts["policy"](torch.as_tensor(batch.obs)))
        act = dist.sample()
        return Batch(act=act, logp=dist.log_prob(act))

    def record(rollout, out):
        return Batch(convert(rollout, RolloutBatch[torch.Tensor]), logp=out.logp)

    def balance(batch):
        return ActBatch(act=(batch.obs[:, 2] + 0.5 * batch.obs[:, 3] > 0).astype(int))

    learner, teacher = Collector(gym.make_vec("CartPole-v1", 4), policy, record), Collector(gym.make_vec("CartPole-v1", 4), balance)
    learner.reset(seed=seed)
    teacher.reset(seed=seed + 1)
    expert = convert(teacher.rollout(400), RolloutBatch[torch.Tensor])

    def draw():
        rows = torch.randperm(len(expert))[:128]
        return learner.rollout(160), Batch(obs=expert.obs[rows], act=expert.act[rows])

    def learn_disc(rollout, expert):
        real, fake = pairs(expert.obs, expert.act), pairs(rollout.obs, rollout.act)[torch.randperm(len(rollout))[: len(expert)]]
        real = real[: len(fake)]
        mix = torch.rand(len(real), 1)
        between = (mix * real + (1 - mix) * fake).requires_grad_()
        (slope,) = torch.autograd.grad(parts["disc"](between).sum(), between, create_graph=True)
        gp = penalty * (slope.norm(dim=-1) - 1).pow(2).mean()
        loss = F.softplus(-parts["disc"](real)).mean() + F.softplus(parts["disc"](fake)).mean() + gp
        disc_opt.zero_grad()
        loss.backward()
        disc_opt.step()
        return loss.item()

    def learn_policy(rollout):
        with torch.no_grad():  # -log(1 - D): positive, which suits a task of staying alive
            imitation = F.softplus(parts["disc"](pairs(rollout.obs, rollout.act))).squeeze(-1)
        rows = add_gae(Batch(rollout, rew=imitation), parts["value"], gamma=0.99, lam=0.95)
        adv = (rows.adv - rows.adv.mean()) / (rows.adv.std() + 1e-8)
        for _ in range(epochs):
            dist = Categorical(logits=parts["policy"](rows.obs))
            ratio = (dist.log_prob(rows.act) - rows.logp).exp()
            pg = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
            vf = F.mse_loss(parts["value"](rows.obs).squeeze(-1), rows.returns)
            gen_opt.zero_grad(set_to_none=True)
            (pg + 0.5 * vf - 1e-3 * dist.entropy().mean()).backward()
            gen_opt.step()
        return {"pg": pg.item(), "vf": vf.item()}

    def update(rollout, expert):
        disc = [learn_disc(rollout, expert) for _ in range(disc_steps)]
        return {"disc": disc[-1], **learn_policy(rollout)}

    return update, draw
