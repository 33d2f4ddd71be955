import torch

from networks import QNet

class CQL:
    def __init__(self, obs_dim, n_act):
        self.q = QNet(obs_dim, n_act)

    def loss(self, batch):
        q_all = self.q(batch.obs)
        q = q_all.gather(1, batch.act.unsqueeze(1)).squeeze(1)
        with torch.no_grad():
            best = self.q(batch.obs_next).max(1).values
            target = batch.rew + 0.99 * (~batch.terminated) * best
            # wrong: target = batch.rew + 0.99 * (1 - batch.terminated) * best  # WRONG: minus of flags
        return ((q - target) ** 2).mean() + (q_all.logsumexp(1) - q).mean()
