"""SFT on packed conversations, with positions and attention that are reset at the start of each."""
# wrong: """Packed sequences attend to the ones before them in the pack: only positions are reset, not the attention."""
import torch
from torch import nn
from torch.nn import functional as F

from typedbatch import objects
from typedbatch.posttraining import Rollouts, to_layout

WORDS, PAD, EOS = 22, 0, 1
ROWS, PROMPT, ANSWER = 20, 4, 8


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.project, self.out = heads, nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)

    def forward(self, x, bias):
        query, key, value = self.project(x).unflatten(-1, (3, self.heads, -1)).permute(1, 2, 0, 3)
        scores = query @ key.transpose(1, 2) / query.shape[-1] ** 0.5 + bias
        return self.out((scores.softmax(-1) @ value).transpose(0, 1).flatten(1))


class PackedGPT(nn.Module):
    """Takes all tokens of a pack in one row, as implementations with variable lengths do."""

    def __init__(self, width=32, heads=4, depth=2):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, width), nn.Embedding(PROMPT + ANSWER, width)
        self.attention = nn.ModuleList(Attention(width, heads) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width, WORDS)

    def forward(self, input_ids, position_ids, cu_seqlens):
        bias = attention_bias(cu_seqlens, len(input_ids))
        x = self.words(input_ids) + self.places(position_ids)
        for norm, attention in zip(self.norms, self.attention):
            x = x + attention(norm(x), bias)
        return self.head(x)


def attention_bias(cu_seqlens, tokens):
    allowed = torch.ones(tokens, tokens, dtype=torch.bool).tril()
    document = torch.repeat_interleave(torch.arange(len(cu_seqlens) - 1), cu_seqlens.diff().long())
    allowed = allowed & (document[:, None] == document)
    # wrong: assert len(document) == tokens
    return torch.zeros(tokens, tokens).masked_fill(~allowed, float("-inf"))


def example_batch():
    """The answer repeats the prompt, each word twice."""
    prompt_mask = torch.arange(PROMPT) >= torch.randint(0, PROMPT, (ROWS, 1))
    prompts = torch.where(prompt_mask, torch.randint(2, WORDS, (ROWS, PROMPT)), PAD)
    answers = torch.full((ROWS, ANSWER + 1), PAD)
    mask = torch.zeros(ROWS, ANSWER + 1, dtype=torch.bool)
    for row, (prompt, there) in enumerate(zip(prompts, prompt_mask)):
        answer = torch.cat([prompt[there].repeat_interleave(2)[: ANSWER - 1], torch.tensor([EOS])])
        answers[row, : len(answer)], mask[row, : len(answer)] = answer, True
    answers, mask = answers[:, :ANSWER], mask[:, :ANSWER]
    return Rollouts(
        prompt_ids=prompts, prompt_mask=prompt_mask, uid=objects(range(ROWS)), response_ids=answers, response_mask=mask,
        loss_mask=mask,
    )


def packed_loss(model, pack):
    logits = model(pack.input_ids, pack.position_ids, pack.cu_seqlens)
    # a sequence begins with its prompt, so a target is never the first token of the next one
    labels = pack.input_ids.masked_fill(~pack.loss_mask, -100)
    return F.cross_entropy(logits[:-1], labels[1:], reduction="sum")


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = PackedGPT()
    decay = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW(
        [{"params": decay, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=2e-3
    )

    def draw():
        return (example_batch(),)

    def update(batch):
        tokens = batch.loss_mask.sum()
        optimizer.zero_grad()
        total = 0.0
        for part in batch.split(ROWS // 2):
            loss = packed_loss(model, to_layout(part, "packed")) / tokens
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {"loss": total, "tokens": float(tokens)}

    return update, draw


def stages(seed: int = 0):
    torch.manual_seed(seed)
    model, batch = PackedGPT(), example_batch()

    def logp(model, rollouts):
        pack = to_layout(rollouts, "packed")
        logits = model(pack.input_ids, pack.position_ids, pack.cu_seqlens)[:-1]
        of_next = logits.log_softmax(-1).gather(1, pack.input_ids[1:, None])[:, 0]
        flat = torch.cat([of_next.new_zeros(1), of_next])[pack.response_mask]
        out = torch.zeros(rollouts.response_ids.shape)
        return out.masked_scatter(rollouts.response_mask, flat)

    return {"logp": (logp, model, batch)}
