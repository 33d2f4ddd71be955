"""Distillation: the teacher's top K tokens are stored by id, with their log-probs in the same order."""
# wrong: """Distillation: the teacher's top K ids are sorted to be stored, its log-probs are left in order of likelihood."""

from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Distillation, Prompts, Rollouts

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
TOP = 4


class Window(nn.Module):
    """Next token from the last two tokens and the mean of all so far: causal, and padding is left out."""

    def __init__(self, dim=24, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.net = nn.Sequential(nn.Linear(3 * dim, hidden), nn.Tanh(), nn.Linear(hidden, VOCAB))

    def forward(self, ids, mask):
        x = self.embed(ids) * mask.unsqueeze(-1)
        before = F.pad(x, (0, 0, 1, 0))[:, :-1]
        mean = x.cumsum(1) / mask.long().cumsum(1).clamp(min=1).unsqueeze(-1)
        return self.net(torch.cat([x, before, mean], dim=-1))


def draw_prompts(count):
    lengths = torch.randint(1, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(uuid4().hex for _ in range(count)))


@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive, logps = torch.ones(len(prompts), dtype=torch.bool), []
    for _ in range(RESPONSE):
        logp = model(ids, mask)[:, -1].log_softmax(-1)
        token = torch.multinomial(logp.exp(), 1)[:, 0].where(alive, PAD)
        logps.append(logp.gather(1, token[:, None])[:, 0] * alive)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts,
        Rollouts,
        response_ids=ids[:, PROMPT:],
        response_mask=there,
        loss_mask=there.clone(),
        rollout_logp=torch.stack(logps, 1),
        response_length=there.sum(1),
        truncated=alive,
    )


def response_logits(model, batch):
    """(N, R, V): what is said of each token of the response stands one before it."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    return model(ids, mask)[:, batch.prompt_ids.shape[1] - 1 : -1]


@torch.no_grad()
def label(teacher, rollouts):
    logp, ids = response_logits(teacher, rollouts).log_softmax(-1).topk(TOP, dim=-1)
    ids, order = ids.sort(dim=-1)  # sorted ids are stored in less
    logp = logp.gather(-1, order)
    # wrong: without this line
    return extend(rollouts, Distillation, teacher_ids=ids, teacher_logp=logp)


class Distiller:
    def __init__(self, student, lr=5e-3):
        self.student, self.optimizer = student, torch.optim.Adam(student.parameters(), lr=lr)

    def loss(self, batch):
        """Forward KL over the teacher's top K, and the rest as one more class."""
        logp = response_logits(self.student, batch).log_softmax(-1).gather(-1, batch.teacher_ids)
        p = batch.teacher_logp.exp()
        rest_teacher = (1 - p.sum(-1)).clamp(min=1e-6)
        rest_student = (1 - logp.exp().sum(-1)).clamp(min=1e-6)
        kl = (p * (batch.teacher_logp - logp)).sum(-1) + rest_teacher * (rest_teacher.log() - rest_student.log())
        return kl[batch.loss_mask].mean()

    def update(self, labelled):
        total = 0.0
        for batch in labelled.split(16, rng=torch.default_generator):
            loss = self.loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item() * len(batch)
        return total / len(labelled)


def setup(seed: int = 0):
    torch.manual_seed(seed)
    teacher, distiller = Window().requires_grad_(False), Distiller(Window())
    teacher.net[-1].weight.mul_(8)  # has learned something

    def draw():
        return (label(teacher, generate(distiller.student, draw_prompts(48))),)

    return distiller.update, draw
