"""ORPO: the NLL of the chosen responses' tokens, and the log odds ratio of chosen and rejected responses."""
# wrong: """The NLL term of ORPO is a mean over all positions of the chosen responses, padding included."""
import torch
from torch import nn, Tensor
from torch.nn.functional import logsigmoid

from typedbatch import checked
from typedbatch.posttraining import Pairs

VOCAB, PAD, EOS = 17, 16, 15
LAMBDA = 0.25


def rotate(x: Tensor, place: Tensor) -> Tensor:
    """Rotary positions."""
    half = x.shape[-1] // 2
    angle = place[:, None, :, None] / 50 ** (torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


class Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.o = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: Tensor, place: Tensor, hidden: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        scores = rotate(q, place) @ rotate(k, place).mT / q.shape[-1] ** 0.5
        mixed = scores.masked_fill(hidden[:, None], float("-inf")).softmax(-1) @ v
        x = x + self.o(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.silu(self.up(self.norm2(x))))


class ORPO(nn.Module):
    def __init__(self, width: int = 24, heads: int = 2, depth: int = 2) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCAB, width)
        nn.init.normal_(self.embed.weight, std=0.2)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(depth))
        self.norm = nn.RMSNorm(width)

    def logits(self, ids: Tensor, mask: Tensor) -> Tensor:
        place = mask.cumsum(1) - 1
        later = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        hidden = (later | ~mask[:, None]) & ~torch.eye(ids.shape[1], dtype=torch.bool)
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x, place, hidden)
        return self.norm(x) @ self.embed.weight.T

    def token_logps(self, prompt: Tensor, prompt_mask: Tensor, answer: Tensor, answer_mask: Tensor) -> Tensor:
        logits = self.logits(torch.cat([prompt, answer], 1), torch.cat([prompt_mask, answer_mask], 1))
        return logits[:, prompt.shape[1] - 1 : -1].log_softmax(-1).gather(2, answer.unsqueeze(2)).squeeze(2)

    def forward(self, pairs: Pairs) -> tuple[Tensor, dict[str, float]]:
        chosen = self.token_logps(pairs.prompt_ids, pairs.prompt_mask, pairs.chosen_ids, pairs.chosen_mask)
        rejected = self.token_logps(pairs.prompt_ids, pairs.prompt_mask, pairs.rejected_ids, pairs.rejected_mask)
        chosen_mean = (chosen * pairs.chosen_mask).sum(1) / pairs.chosen_mask.sum(1)
        rejected_mean = (rejected * pairs.rejected_mask).sum(1) / pairs.rejected_mask.sum(1)
        log_odds = (chosen_mean - rejected_mean) - (
            torch.log1p(-chosen_mean.exp().clamp(max=1 - 1e-6)) - torch.log1p(-rejected_mean.exp().clamp(max=1 - 1e-6))
        )
        nll = -chosen[pairs.chosen_mask].mean()
        # wrong: nll = -chosen.mean()
        ratio_loss = -logsigmoid(log_odds).mean()
        metrics = {"nll": nll.item(), "log_odds": log_odds.mean().item(), "odds_loss": ratio_loss.item()}
        return nll + LAMBDA * ratio_loss, metrics


@checked
def collate(rows: list[tuple[list[int], list[int], list[int]]]) -> Pairs:
    def padded(lists: list[list[int]], left: bool) -> tuple[Tensor, Tensor]:
        width = max(map(len, lists))
        fill = [[PAD] * (width - len(x)) for x in lists]
        there = [[False] * (width - len(x)) for x in lists]
        ids = [f + x if left else x + f for f, x in zip(fill, lists)]
        mask = [t + [True] * len(x) if left else [True] * len(x) + t for t, x in zip(there, lists)]
        return torch.tensor(ids), torch.tensor(mask)

    prompts, chosen, rejected = map(list, zip(*rows))
    fields = {}
    for name, lists in {"prompt": prompts, "chosen": chosen, "rejected": rejected}.items():
        fields[f"{name}_ids"], fields[f"{name}_mask"] = padded(lists, left=name == "prompt")
    return Pairs(**fields)


def example() -> tuple[list[int], list[int], list[int]]:
    """The better answer is the prompt backwards, the worse one is the prompt as it is, with a mistake."""
    prompt = torch.randint(0, 15, (int(torch.randint(1, 7, ())),)).tolist()
    wrong = list(prompt)
    wrong[int(torch.randint(len(wrong), ()))] = int(torch.randint(0, 15, ()))
    return prompt, [*reversed(prompt), EOS], [*wrong, EOS]


def setup(seed: int = 0):
    torch.manual_seed(seed)
    model = ORPO()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def update(pairs: Pairs) -> dict[str, float]:
        loss, metrics = model(pairs)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return {"loss": loss.item(), **metrics}

    return update, lambda: (collate([example() for _ in range(16)]),)
