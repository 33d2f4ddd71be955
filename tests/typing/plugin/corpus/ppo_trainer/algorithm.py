"""Generalised advantages and the clipped objective."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ppo_trainer import config
from ppo_trainer.nets import ActorCritic
from typedbatch import LogpOldBatch, LogpOldProtocol, RolloutBatchProtocol, extend


def gae(rew: np.ndarray, v_s: np.ndarray, v_next: np.ndarray, end: np.ndarray) -> np.ndarray:
    gamma, lam = float(config.algo.gamma), float(config.algo.gae_lambda)
    delta = rew + gamma * v_next * ~end - v_s
    adv = np.zeros(len(rew))
    last = 0.0
    for t in reversed(range(len(rew))):
        last = delta[t] + gamma * lam * last * (not end[t])
        adv[t] = last
    return adv


def process(batch: RolloutBatchProtocol, net: ActorCritic) -> LogpOldBatch:
    with torch.no_grad():
        logp, v_s = net(torch.as_tensor(batch.obs))
        _, v_next = net(torch.as_tensor(batch.obs_next))
    adv = gae(batch.rew, v_s.numpy(), v_next.numpy(), batch.terminated | batch.truncated)
    #! old-name: adv = gae(batch.rew, v_s.numpy(), v_next.numpy(), batch.done)
    logp_old = logp.gather(1, torch.as_tensor(batch.act)[:, None]).squeeze(1).numpy()
    returns = adv + v_s.numpy()
    return extend(batch, LogpOldBatch, adv=adv, v_s=v_s.numpy(), returns=returns, logp_old=logp_old)
    #! forgotten-field: return extend(batch, LogpOldBatch, adv=adv, v_s=v_s.numpy(), returns=returns)


def loss(batch: LogpOldProtocol[Tensor], net: ActorCritic) -> Tensor:
    logp_all, value = net(batch.obs)
    logp = logp_all.gather(1, batch.act[:, None]).squeeze(1)
    ratio = torch.exp(logp - batch.logp_old)
    #! misspelt-read: ratio = torch.exp(logp - batch.old_logp)
    clip = float(config.algo.clip)
    surrogate = torch.min(ratio * batch.adv, ratio.clamp(1 - clip, 1 + clip) * batch.adv)
    value_loss = (value - batch.returns).pow(2).mean()
    total: Tensor = -surrogate.mean() + float(config.algo.vf_coef) * value_loss
    return total
