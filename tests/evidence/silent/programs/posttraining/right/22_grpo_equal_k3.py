"""GRPO whose groups all have equal rewards: every advantage is 0, and only the k3 KL in the loss moves the policy."""
import copy
import torch
from typedbatch import Batch, objects

class Conv(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tok, self.conv, self.head = torch.nn.Embedding(12, 16), torch.nn.Linear(16 * 3, 24), torch.nn.Linear(24, 12)
    def forward(self, ids, mask):
        x = torch.nn.functional.pad(self.tok(ids) * mask[..., None], (0, 0, 2, 0)).unfold(1, 3, 1)  # a causal convolution
        return self.head(torch.tanh(self.conv(x.flatten(2))))

def setup(seed: int = 0):
    torch.manual_seed(seed)
    reference, gen = Conv().requires_grad_(False), torch.Generator().manual_seed(seed)
    policy = copy.deepcopy(reference).requires_grad_(True)
    policy.head.weight.data += 0.3 * torch.randn(12, 24)  # training has taken it away from the reference
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
    def logp_of(model, b):
        ids, mask = torch.cat([b.prompt_ids, b.response_ids], 1), torch.cat([b.prompt_mask, b.response_mask], 1)
        logp = model(ids, mask)[:, b.prompt_ids.shape[1] - 1 : -1].log_softmax(-1)
        return logp.gather(-1, b.response_ids[..., None])[..., 0].masked_fill(~b.response_mask, 0.0)
    @torch.no_grad()
    def draw():
        mask = (torch.arange(4) >= torch.randint(0, 4, (3, 1), generator=gen)).repeat_interleave(4, 0)
        ids, alive = torch.randint(2, 12, (3, 4), generator=gen).repeat_interleave(4, 0) * mask, torch.ones(12).bool()
        for _ in range(6):
            new = torch.multinomial(policy(ids, mask)[:, -1].softmax(-1), 1, generator=gen) * alive[:, None]
            ids, mask, alive = torch.cat([ids, new], 1), torch.cat([mask, alive[:, None]], 1), alive & (new[:, 0] != 1)
        b = Batch(prompt_ids=ids[:, :4], prompt_mask=mask[:, :4], response_ids=ids[:, 4:], response_mask=mask[:, 4:],
                  rewards=torch.tensor([1.0, 0.0, 1.0]).repeat_interleave(4), uid=objects(list("aaaabbbbcccc")))
        b.old_logp, b.ref_logp, b.loss_mask = logp_of(policy, b), logp_of(reference, b), b.response_mask
        return (b,)
    def update(b):
        peers = torch.tensor(b.uid[:, None] == b.uid[None]).float()
        centered = b.rewards - peers @ b.rewards / peers.sum(1)
        std = (peers @ centered.square() / peers.sum(1)).sqrt()
        advantage, logp = (centered / (std + 1e-4))[:, None], logp_of(policy, b)
        ratio, behind = (logp - b.old_logp).exp(), b.ref_logp - logp
        loss = 0.1 * (behind.exp() - behind - 1) - torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage)
        loss = (loss.masked_fill(~b.loss_mask, 0.0).sum(1) / b.loss_mask.sum(1)).mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        return loss.item()
    return update, draw
