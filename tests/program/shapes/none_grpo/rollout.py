import torch
from typedbatch import Batch


class Sampler:
    def __init__(self, cfg, policy):
        self.cfg = cfg
        self.policy = policy

    def run(self):
        n = self.cfg.prompts * self.cfg.group
        prompts = torch.randint(0, self.cfg.vocab, (n, self.cfg.prompt_len))
        ids = prompts
        for _ in range(self.cfg.response_len):
            logits = self.policy(ids)[:, -1]
            nxt = torch.multinomial(logits.softmax(-1), 1)
            ids = torch.cat([ids, nxt], dim=1)
        response = ids[:, self.cfg.prompt_len :]
        return Batch(ids=ids, response=response, mask=torch.ones_like(response).float(), rewards=torch.randn(n))
