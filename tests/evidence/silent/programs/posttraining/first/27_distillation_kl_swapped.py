"""On-policy distillation: forward KL from the teacher to the student over the teacher's top tokens."""
# wrong: """On-policy distillation: input and target of kl_div are swapped, so it is the reverse KL, over a part of the tokens."""

# F.kl_div(input, target) is KL(target || input): the order is the other way round than on paper
from uuid import uuid4

import torch
import torch.nn.functional as F
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Distillation, Prompts, Rollouts
from typedbatch.rows import repeat

torch.set_num_threads(1)
DIGITS, PROMPT, RESPONSE = 8, 3, 5
PAD, EOS, VOCAB = DIGITS, DIGITS + 1, DIGITS + 2
TOP = 4


class CausalLM(nn.Module):
    """A layer of attention that ignores padding, also in positions."""

    def __init__(self, width=16):
        super().__init__()
        self.token, self.place = nn.Embedding(VOCAB, width), nn.Embedding(16, width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.lm_head = nn.Linear(width, VOCAB)

    def hidden(self, ids, mask):
        size = ids.shape[1]
        x = self.token(ids) + self.place((mask.long().cumsum(1) - 1).clamp(min=0))
        seen = torch.ones(size, size, dtype=torch.bool).tril() & mask[:, None] | torch.eye(size, dtype=torch.bool)
        q, k, v = self.qkv(x).chunk(3, -1)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, attn_mask=seen))
        return x + self.mlp(x)

    def forward(self, ids, mask):
        return self.lm_head(self.hidden(ids, mask))


def draw_prompts(count):
    lengths = torch.randint(2, PROMPT + 1, (count, 1))
    mask = torch.arange(PROMPT) >= PROMPT - lengths
    ids = torch.randint(DIGITS, (count, PROMPT)).where(mask, PAD)
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(str(uuid4()) for _ in range(count)))


@torch.no_grad()
def sample(model, prompts):
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    alive = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(RESPONSE):
        probs = model(ids, mask)[:, -1].softmax(-1)
        token = torch.multinomial(probs, 1)[:, 0].where(alive, PAD)
        ids, mask = torch.cat([ids, token[:, None]], 1), torch.cat([mask, alive[:, None]], 1)
        alive = alive & (token != EOS)
    there = mask[:, PROMPT:]
    return extend(prompts, Rollouts, response_ids=ids[:, PROMPT:], response_mask=there, loss_mask=there, truncated=alive)


def response_logits(model, batch):
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    return model(ids, torch.cat([batch.prompt_mask, batch.response_mask], 1))[:, PROMPT - 1 : -1]


@torch.no_grad()
def ask_teacher(teacher, rollouts):
    top = response_logits(teacher, rollouts).log_softmax(-1).topk(TOP, -1)
    return extend(rollouts, Distillation, teacher_ids=top.indices, teacher_logp=top.values)


def distillation_loss(student, batch):
    student_logp = response_logits(student, batch).log_softmax(-1).gather(-1, batch.teacher_ids)
    per_token = F.kl_div(student_logp, batch.teacher_logp, log_target=True, reduction="none").sum(-1)
    # wrong: per_token = F.kl_div(batch.teacher_logp, student_logp, log_target=True, reduction="none").sum(-1)
    return (per_token * batch.loss_mask).sum() / batch.loss_mask.sum()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    student, teacher = CausalLM(), CausalLM().requires_grad_(False)
    with torch.no_grad():
        teacher.lm_head.weight.mul_(4.0)  # a teacher that is sure of something
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)

    def draw():
        return (ask_teacher(teacher, sample(student, repeat(draw_prompts(16), 2))),)

    def update(batch):
        losses = []
        for part in batch.split(16, rng=torch.default_generator):
            loss = distillation_loss(student, part)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return sum(losses) / len(losses)

    return update, draw
