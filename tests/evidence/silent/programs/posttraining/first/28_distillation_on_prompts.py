"""Distillation on rollouts of the student: the Jensen-Shannon divergence at the tokens of the responses."""
# wrong: """Distillation: the loss is taken at all tokens that exist, so those of the prompts count as well."""

# generalized knowledge distillation as in TRL's GKDTrainer, where labels == -100 marks the prompt
import numpy as np
import torch
from torch import nn

from typedbatch import extend, objects
from typedbatch.posttraining import Prompts, Rollouts
from typedbatch.rows import repeat

torch.set_num_threads(1)
LETTERS, MAX_PROMPT, MAX_NEW = 8, 6, 3
PAD, EOS, VOCAB = 8, 9, 10


class GRULM(nn.Module):
    """A recurrent language model; where there is padding its state is carried over."""

    def __init__(self, hidden=24):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, hidden)
        self.cell = nn.GRUCell(hidden, hidden)
        self.head = nn.Linear(hidden, VOCAB)

    def states(self, input_ids, attention_mask):
        x = self.embed(input_ids)
        h, states = x.new_zeros(len(x), x.shape[-1]), []
        for t in range(x.shape[1]):
            h = torch.where(attention_mask[:, t, None], self.cell(x[:, t], h), h)
            states.append(h)
        return torch.stack(states, 1)

    def forward(self, input_ids, attention_mask):
        return self.head(self.states(input_ids, attention_mask))


def make_prompts(rng: np.random.Generator, n: int) -> Prompts:
    """Prompts of 1 to MAX_PROMPT letters, padded on the left."""
    rows = [rng.integers(0, LETTERS, size=rng.integers(1, MAX_PROMPT + 1)).tolist() for _ in range(n)]
    ids = torch.tensor([[PAD] * (MAX_PROMPT - len(r)) + r for r in rows])
    mask = torch.tensor([[False] * (MAX_PROMPT - len(r)) + [True] * len(r) for r in rows])
    return Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(f"q{rng.integers(1 << 40)}" for _ in rows))


@torch.no_grad()
def generate(policy, prompts: Prompts, temperature: float = 1.0) -> Rollouts:
    """Sample until EOS or MAX_NEW tokens, and keep the sampler's log-probs."""
    policy.eval()
    n = len(prompts)
    input_ids, attention_mask = prompts.prompt_ids, prompts.prompt_mask
    unfinished = torch.ones(n, dtype=torch.bool)
    logps = []
    for _ in range(MAX_NEW):
        dist = torch.distributions.Categorical(logits=policy(input_ids, attention_mask)[:, -1] / temperature)
        tok = dist.sample()
        logps.append(dist.log_prob(tok) * unfinished)
        tok = torch.where(unfinished, tok, torch.full_like(tok, PAD))
        input_ids = torch.cat([input_ids, tok.unsqueeze(1)], dim=1)
        attention_mask = torch.cat([attention_mask, unfinished.unsqueeze(1)], dim=1)
        unfinished = unfinished & tok.ne(EOS)
    policy.train()
    p = prompts.prompt_ids.shape[1]
    response_mask = attention_mask[:, p:]
    return extend(
        prompts,
        Rollouts,
        response_ids=input_ids[:, p:],
        response_mask=response_mask,
        loss_mask=response_mask.clone(),
        rollout_logp=torch.stack(logps, dim=1),
        response_length=response_mask.sum(1),
        truncated=unfinished,
    )


class GKDTrainer:
    def __init__(self, model, teacher_model, beta=0.5, lr=5e-3):
        self.model, self.teacher_model, self.beta = model, teacher_model.eval().requires_grad_(False), beta
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def generalized_jsd(self, student_logits, teacher_logits):
        student, teacher = student_logits.log_softmax(-1), teacher_logits.log_softmax(-1)
        mixture = (self.beta * teacher.exp() + (1 - self.beta) * student.exp()).log()
        kl_teacher = (teacher.exp() * (teacher - mixture)).sum(-1)
        kl_student = (student.exp() * (student - mixture)).sum(-1)
        return self.beta * kl_teacher + (1 - self.beta) * kl_student

    def compute_loss(self, batch):
        input_ids = torch.cat([batch.prompt_ids, batch.response_ids], dim=1)
        attention_mask = torch.cat([batch.prompt_mask, batch.response_mask], dim=1)
        student_logits = self.model(input_ids, attention_mask)[:, :-1]
        with torch.no_grad():
            teacher_logits = self.teacher_model(input_ids, attention_mask)[:, :-1]
        mask = torch.cat([torch.zeros_like(batch.prompt_mask), batch.loss_mask], dim=1)[:, 1:]
        # wrong: mask = attention_mask[:, 1:]
        jsd = self.generalized_jsd(student_logits, teacher_logits)
        return (jsd * mask).sum() / mask.sum()

    def training_step(self, batch):
        loss = self.compute_loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.item()


def setup(seed: int = 0):
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    student, teacher = GRULM(), GRULM(hidden=32)
    with torch.no_grad():
        teacher.head.weight.mul_(3.0)
    trainer = GKDTrainer(student, teacher)
    return trainer.training_step, lambda: (generate(student, repeat(make_prompts(rng, 16), 2)),)
