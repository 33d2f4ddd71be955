"""On-policy distillation with the generalized Jensen-Shannon divergence, over the tokens of the student."""
# wrong: """Distillation: the divergence is a mean over the rectangle, so the model also learns what the teacher says after padding."""

# Source: TRL's generalized_jsd_loss needs `jsd[labels != -100]` before it reduces; without it batchmean has the padding
import math
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts
from typedbatch.rows import repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 5, 3, 6
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
BETA = 0.5


class Decoder(nn.Module):
    """Causal attention with a bias for each distance, so it does not matter where a row begins."""

    def __init__(self, width=24, heads=2):
        super().__init__()
        self.heads = heads
        self.embed, self.distance = nn.Embedding(VOCAB, width), nn.Embedding(32, heads)
        self.qkv, self.proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.norms = nn.ModuleList(nn.RMSNorm(width) for _ in range(3))
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.lm_head = nn.Linear(width, VOCAB, bias=False)

    def hidden(self, ids, mask):
        size = ids.shape[1]
        place = torch.arange(size)
        gap = place[:, None] - place
        seen = (gap >= 0) & mask[:, None] | torch.eye(size, dtype=torch.bool)
        bias = self.distance(gap.clamp(0, 31)).permute(2, 0, 1).masked_fill(~seen[:, None], -1e9)
        x = self.embed(ids)
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias
        x = x + self.proj((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        x = x + self.down(F.silu(self.up(self.norms[1](x))))
        return self.norms[2](x)

    def forward(self, ids, mask):
        return self.lm_head(self.hidden(ids, mask))


def draw_prompts(count):
    lengths = torch.randint(1, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(uuid4().hex for _ in range(count)))


@torch.no_grad()
def generate(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        probs = model(ids, mask)[:, -1].softmax(-1)
        token = torch.multinomial(probs, 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(
        prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there.clone(), truncated=alive
    )


def response_logits(model, rollouts):
    """The logits that predict the tokens of the responses (N, R, V)."""
    ids = torch.cat([rollouts.prompt_ids, rollouts.response_ids], 1)
    mask = torch.cat([rollouts.prompt_mask, rollouts.response_mask], 1)
    return model(ids, mask)[:, rollouts.prompt_ids.shape[1] - 1 : -1]


def generalized_jsd(student_logits, teacher_logits, mask):
    student, teacher = student_logits.log_softmax(-1), teacher_logits.log_softmax(-1)
    mixture = torch.logsumexp(torch.stack([student + math.log(1 - BETA), teacher + math.log(BETA)]), 0)
    kl_teacher = F.kl_div(mixture, teacher, reduction="none", log_target=True).sum(-1)
    kl_student = F.kl_div(mixture, student, reduction="none", log_target=True).sum(-1)
    jsd = BETA * kl_teacher + (1 - BETA) * kl_student
    return (jsd * mask).sum() / mask.sum()
    # wrong: return jsd.mean()


class GKDTrainer:
    def __init__(self, student, teacher):
        self.student, self.teacher = student, teacher.eval().requires_grad_(False)
        self.optimizer = torch.optim.AdamW(student.parameters(), lr=5e-3)

    def rollout(self):
        return (generate(self.student, repeat(draw_prompts(16), 2)),)

    def update(self, rollouts):
        for part in rollouts.split(16, rng=torch.default_generator):
            with torch.no_grad():
                teacher_logits = response_logits(self.teacher, part)
            loss = generalized_jsd(response_logits(self.student, part), teacher_logits, part.loss_mask)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.student.parameters(), 1.0)
            self.optimizer.step()
        return loss.item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    teacher = Decoder(width=32)
    with torch.no_grad():
        teacher.lm_head.weight.mul_(3.0)  # a teacher that knows what it wants
    trainer = GKDTrainer(Decoder(), teacher)
    return trainer.update, trainer.rollout
