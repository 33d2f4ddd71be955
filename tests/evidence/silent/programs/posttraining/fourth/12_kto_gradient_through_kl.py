"""KTO on pairs: each half is compared with the KL of the other half, which is a constant for the gradient."""
# wrong: """The KL estimates that KTO compares with are not detached, so that the loss is lowered by raising them."""
import copy
import itertools

import torch
import torch.nn.functional as F

from typedbatch import extend
from typedbatch.posttraining import Pairs

PAD, BOS, EOS, VOCAB = 0, 1, 2, 19


class KTORecord(Pairs):
    """Pairs with the log-probs of the reference, which are computed once for the whole data set."""

    ref_chosen_logp: torch.Tensor
    ref_rejected_logp: torch.Tensor


class Model(torch.nn.Module):
    def __init__(self, d=24):
        super().__init__()
        self.e = torch.nn.Embedding(VOCAB, d)
        self.q, self.k, self.v = (torch.nn.Linear(d, d, bias=False) for _ in range(3))
        self.f = torch.nn.Sequential(torch.nn.Linear(2 * d, 2 * d), torch.nn.SiLU(), torch.nn.Linear(2 * d, VOCAB))

    def forward(self, ids, mask):
        x = self.e(ids)
        place = mask.long().cumsum(1)
        distance = (place[:, :, None] - place[:, None]).clamp(min=0)
        scores = self.q(x) @ self.k(x).transpose(1, 2) / 5 - 0.3 * distance  # ALiBi
        t = ids.shape[1]
        seen = mask[:, None] & torch.ones(t, t).tril().bool() | torch.eye(t).bool()
        return self.f(torch.cat([x, scores.masked_fill(~seen, -1e9).softmax(-1) @ self.v(x)], -1))


def completion_logp(model, prompt_ids, prompt_mask, ids, mask):
    logits = model(torch.cat([prompt_ids, ids], 1), torch.cat([prompt_mask, mask], 1))
    logits = logits[:, prompt_ids.shape[1] - 1 : -1]
    logp = -F.cross_entropy(logits.flatten(0, 1), ids.flatten(), reduction="none").view_as(ids)
    return (logp * mask).sum(1)


def both_logps(model, pairs):
    prompt = pairs.prompt_ids, pairs.prompt_mask
    return (
        completion_logp(model, *prompt, pairs.chosen_ids, pairs.chosen_mask),
        completion_logp(model, *prompt, pairs.rejected_ids, pairs.rejected_mask),
    )


def kto_pair_loss(chosen, rejected, ref_chosen, ref_rejected, beta):
    chosen_ratio, rejected_ratio = chosen - ref_chosen, rejected - ref_rejected
    chosen_kl = chosen_ratio.mean().clamp(min=0).detach()
    # wrong: chosen_kl = chosen_ratio.mean().clamp(min=0)
    rejected_kl = rejected_ratio.mean().clamp(min=0).detach()
    # wrong: rejected_kl = rejected_ratio.mean().clamp(min=0)
    desirable = 1 - torch.sigmoid(beta * (chosen_ratio - rejected_kl))
    undesirable = 1 - torch.sigmoid(beta * (chosen_kl - rejected_ratio))
    rewards = beta * chosen_ratio.detach(), beta * rejected_ratio.detach()
    return torch.cat([desirable, undesirable]).mean(), rewards


def dataset(rows):
    """Desirable answers go on with the prompt's first token, undesirable ones do not know it."""
    prompt_mask = torch.arange(4) >= torch.randint(0, 3, (rows, 1))
    first = prompt_mask.int().argmax(1)
    prompt_ids = torch.randint(3, VOCAB, (rows, 4))
    prompt_ids[torch.arange(rows), first] = BOS
    prompt_ids = prompt_ids.where(prompt_mask, PAD)
    hint = prompt_ids[:, -1:]

    def answers(tokens):
        length = torch.randint(1, 7, (rows, 1))
        mask = torch.arange(7) <= length
        return {"ids": tokens.where(torch.arange(7) < length, EOS).where(mask, PAD), "mask": mask}

    good, bad = answers(hint.expand(rows, 7)), answers(torch.randint(3, VOCAB, (rows, 7)))
    return Pairs(
        prompt_ids=prompt_ids, prompt_mask=prompt_mask, chosen_ids=good["ids"], chosen_mask=good["mask"],
        rejected_ids=bad["ids"], rejected_mask=bad["mask"],
    )


def pretrain(model, pairs, steps):
    """The policy that KTO starts from: an SFT model of both kinds of answers."""
    optimizer = torch.optim.Adam(model.parameters(), 3e-3)
    for _ in range(steps):
        loss = -sum(logp.mean() for logp in both_logps(model, pairs))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    policy, data = Model(), dataset(96)
    pretrain(policy, data, 10)
    reference = copy.deepcopy(policy).requires_grad_(False)
    with torch.no_grad():
        ref_chosen, ref_rejected = both_logps(reference, data)
    data = extend(data, KTORecord, ref_chosen_logp=ref_chosen, ref_rejected_logp=ref_rejected)
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=5e-4)
    order = itertools.chain.from_iterable(torch.randperm(96).split(16) for _ in itertools.count())

    def draw():
        return (data[next(order)],)

    def update(pairs):
        chosen, rejected = both_logps(policy, pairs)
        loss, (good, bad) = kto_pair_loss(chosen, rejected, pairs.ref_chosen_logp, pairs.ref_rejected_logp, beta=0.3)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        optimizer.step()
        return {"loss": loss.item(), "chosen": good.mean().item(), "rejected": bad.mean().item()}

    for _ in range(4):  # warm-up
        update(*draw())
    return update, draw
