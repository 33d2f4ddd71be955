"""Self-play PPO in a zero-sum one-shot game against frozen copies of the policy kept in a plain list; all steps terminate."""
import copy
import torch
from torch import nn
from torch.distributions import Categorical
from typedbatch import Batch, LogpOldBatch

N, D, GAMES = 64, 4, torch.tensor([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])  # rock, paper, scissors

class SelfPlay:
    def __init__(self):
        self.policy = nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, 3))
        self.critic = nn.Sequential(nn.Linear(D, 32), nn.Tanh(), nn.Linear(32, 1))
        self.opponents, self.updates = [copy.deepcopy(self.policy).requires_grad_(False)], 0
        self.opt = torch.optim.Adam([*self.policy.parameters(), *self.critic.parameters()], lr=3e-3)

    @torch.no_grad()
    def draw(self):
        obs, rival = torch.randn(N, D), torch.randint(len(self.opponents), (1,)).item()
        act = (dist := Categorical(logits=self.policy(obs))).sample()
        act_rival = Categorical(logits=self.opponents[rival](obs)).sample()
        rew, value = GAMES[act, act_rival] * (1 + obs[:, 0].abs()), self.critic(obs).squeeze(1)
        ends = torch.ones(N, dtype=torch.bool)
        return (LogpOldBatch(obs=obs, act=act, rew=rew, terminated=ends, truncated=~ends, obs_next=torch.zeros(N, D),
                             info=Batch(act_rival=act_rival), returns=rew, adv=rew - value, v_s=value, logp_old=dist.log_prob(act)),)

    def update(self, batch):
        for _ in range(3):
            dist = Categorical(logits=self.policy(batch.obs))
            ratio = (dist.log_prob(batch.act) - batch.logp_old).exp()
            surrogate = torch.min(ratio * batch.adv, ratio.clamp(0.8, 1.2) * batch.adv).mean()
            value_loss = (self.critic(batch.obs).squeeze(1) - batch.returns).pow(2).mean()
            loss = -surrogate + 0.5 * value_loss - 0.02 * dist.entropy().mean()
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        self.updates += 1
        if self.updates % 2 == 0:
            self.opponents = [*self.opponents, copy.deepcopy(self.policy).requires_grad_(False)][-4:]
        return {"loss": loss.item()}

def setup(seed: int = 0):
    torch.manual_seed(seed)
    return (algo := SelfPlay()).update, algo.draw
