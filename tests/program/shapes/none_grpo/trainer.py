import torch


class GRPO:
    def __init__(self, cfg, policy):
        self.cfg = cfg
        self.policy = policy

    def advantages(self, rewards):
        grouped = rewards.view(self.cfg.prompts, self.cfg.group)
        adv = grouped - grouped.mean(1, keepdim=True)
        return adv.reshape(-1)
        # wrong: return adv

    def loss(self, batch):
        logits = self.policy(batch.ids)[:, self.cfg.prompt_len - 1 : -1]
        logp = logits.log_softmax(-1).gather(2, batch.response.unsqueeze(-1)).squeeze(-1)
        adv = self.advantages(batch.rewards)
        return -(logp * adv.unsqueeze(-1) * batch.mask).sum() / batch.mask.sum()
        # wrong: return -(logp * adv.unsqueeze(-1) * batch.mask).sum() / batch.mask.sum()  # WRONG: adv is (prompts, group, 1)
