"""Value, critic and policy."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from offline_iql.settings import Extract, Settings
from typedbatch import Batch, RolloutBatchProtocol


def net(n_out: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, n_out))


class IQL:
    def __init__(self, cfg: Settings) -> None:
        self.cfg = cfg
        self.q, self.v, self.pi = net(2), net(1), net(2)
        self.optim = torch.optim.Adam([*self.q.parameters(), *self.v.parameters(), *self.pi.parameters()], lr=1e-2)

    def learn(self, data: RolloutBatchProtocol[Tensor]) -> Batch:
        work = Batch(v=self.v(data.obs).squeeze(-1), q=self.q(data.obs).gather(1, data.act[:, None]).squeeze(1))
        with torch.no_grad():
            work.v_next = self.v(data.obs_next).squeeze(-1)
            target = data.rew + self.cfg.gamma * work.v_next * (~data.terminated).float()
            #! misspelt-read: target = data.rew + self.cfg.gamma * work.next_v * (~data.terminated).float()
        work.adv = work.q.detach() - work.v
        weight = torch.where(work.adv > 0, self.cfg.expectile, 1 - self.cfg.expectile)
        work.v_loss = (weight * work.adv.pow(2)).mean()
        work.q_loss = (work.q - target).pow(2).mean()
        logp = torch.log_softmax(self.pi(data.obs), -1).gather(1, data.act[:, None]).squeeze(1)

        match self.cfg.extract:
            case Extract.AWR:
                work.awr = torch.exp(self.cfg.temperature * work.adv.detach()).clamp(max=20)
                #! later-stage: work.awr = torch.exp(self.cfg.temperature * data.adv.detach()).clamp(max=20)
                work.pi_loss = -(work.awr * logp).mean()
            case Extract.CLONE:
                work.pi_loss = -logp.mean()

        loss = work.v_loss + work.q_loss + work.pi_loss
        #! misspelt-read: loss = work.v_loss + work.q_loss + work.policy_loss
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        out = Batch(loss=loss.detach(), adv=work.adv.detach().mean())
        if self.cfg.extract is Extract.AWR:
            out.awr = work.awr.mean()
        return out
        #! wrong-type: return out.loss
