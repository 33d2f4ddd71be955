"""A bigram model with a value head and a reward head."""

import torch
from torch import Tensor, nn

from typedbatch import Batch

from rlhfstack.records import Completions, Maskable, Prompts, Supervised

VOCAB, EOS = 7, 0


def masked_mean(x: Tensor, batch: Maskable) -> Tensor:
    return (x * batch.mask).sum() / batch.mask.sum().clamp(min=1)
    #! misspelt-read: return (x * batch.mask).sum() / batch.masks.sum().clamp(min=1)


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.next = nn.Embedding(VOCAB, VOCAB)
        self.value = nn.Embedding(VOCAB, 1)

    def logits(self, tokens: Tensor) -> Tensor:
        y: Tensor = self.next(tokens)
        return y

    def logp(self, prompt: Tensor, tokens: Tensor) -> Tensor:
        before = torch.cat([prompt[:, None], tokens[:, :-1]], 1)
        return torch.log_softmax(self.logits(before), -1).gather(-1, tokens[..., None]).squeeze(-1)

    def values(self, batch: Completions) -> Tensor:
        before = torch.cat([batch.prompt[:, None], batch.tokens[:, :-1]], 1)
        #! misspelt-read: before = torch.cat([batch.prompts[:, None], batch.tokens[:, :-1]], 1)
        v: Tensor = self.value(before).squeeze(-1)
        return v


def generate(model: Model, prompts: Prompts, length: int) -> Completions:
    state = Batch(last=prompts.prompt, alive=torch.ones(len(prompts)))
    tokens, logps, masks = [], [], []
    for _ in range(length):
        with torch.no_grad():
            dist = torch.distributions.Categorical(logits=model.logits(state.last))
            #! misspelt-read: dist = torch.distributions.Categorical(logits=model.logits(state.prev))
            tok = dist.sample()
        tokens.append(tok)
        logps.append(dist.log_prob(tok))
        masks.append(state.alive)
        state.alive = state.alive * (tok != EOS)
        state.last = tok
    made = Batch(tokens=torch.stack(tokens, 1), logp=torch.stack(logps, 1), mask=torch.stack(masks, 1))
    return Completions(prompt=prompts.prompt, source=prompts.source, tokens=made.tokens, logp=made.logp, mask=made.mask)
    #! forgotten-field: return Completions(prompt=prompts.prompt, source=prompts.source, tokens=made.tokens, logp=made.logp)


def supervised_loss(model: Model, batch: Supervised) -> Tensor:
    logits = model.logits(batch.tokens[:, :-1])
    nll = nn.functional.cross_entropy(logits.transpose(1, 2), batch.tokens[:, 1:], reduction="none")
    return (nll * batch.mask[:, 1:]).mean()
