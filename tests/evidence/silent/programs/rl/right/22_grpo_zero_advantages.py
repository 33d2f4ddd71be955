"""GRPO, no critic: groups of equal rewards have zero advantages, in every second draw all rows; KL to a frozen reference."""
import copy
import torch
from torch import nn
from torch.distributions import Categorical
from typedbatch import Batch

PROMPTS, GROUP, D, A = 8, 8, 6, 5

def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy = nn.Sequential(nn.Linear(D, 32), nn.GELU(), nn.Linear(32, A))
    reference = copy.deepcopy(policy).requires_grad_(False)
    opt = torch.optim.SGD(policy.parameters(), lr=0.1)
    draws = 0

    def draw():
        nonlocal draws
        draws += 1
        obs = torch.randn(PROMPTS, D).repeat_interleave(GROUP, 0)
        with torch.no_grad():
            act = (dist := Categorical(logits=policy(obs))).sample()
        rew = (act == obs[:, :A].argmax(1)).float()
        rew[:GROUP] = 0.0  # a prompt that is never solved
        if draws % 2 == 0:
            rew = torch.ones_like(rew)  # solved by all
        groups = rew.view(PROMPTS, GROUP)
        adv = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)
        return (Batch(obs=obs, act=act, rew=rew, adv=adv.flatten(), logp_old=dist.log_prob(act)),)

    def update(batch):
        logp = Categorical(logits=policy(batch.obs)).log_prob(batch.act)
        ratio = (logp - batch.logp_old).exp()
        surrogate = torch.min(ratio * batch.adv, ratio.clamp(0.8, 1.28) * batch.adv)
        away = Categorical(logits=reference(batch.obs)).log_prob(batch.act) - logp
        kl = away.exp() - away - 1  # k3, unbiased and never negative
        loss = (0.04 * kl - surrogate).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return {"loss": loss.item()}

    return update, draw
