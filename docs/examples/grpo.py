"""GRPO, with its stages declared: prompts, rollouts, scored rollouts, and what the loss may read.

A tiny transformer, which knows nothing at first, is to answer with the last token of its prompt, and then to stop. Each
prompt is sampled several times; an answer is as good as it is better than the others to the same prompt.

``python docs/examples/grpo.py`` trains for a minute on a CPU and prints the mean reward, which rises towards 1.
"""

from __future__ import annotations

import argparse

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from typedbatch import checked, extend, objects
from typedbatch.posttraining import PolicyLossProtocol, Prompts, Ready, Rollouts, Scored, SequenceProtocol
from typedbatch.rows import groups, repeat

PAD, END, DIGITS, LONGEST = 0, 1, 8, 4
VOCABULARY = 2 + DIGITS


class Block(nn.Module):
    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.qkv, self.out = nn.LayerNorm(size), nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.mlp = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.GELU(), nn.Linear(4 * size, size))

    def forward(self, x: Tensor, sees: Tensor) -> Tensor:
        q, k, v = self.qkv(self.before(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=sees[:, None])
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(x)


class Model(nn.Module):
    """A causal transformer: from tokens to the logits of the next one."""

    def __init__(self, size: int = 64, layers: int = 2) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(VOCABULARY, size), nn.Embedding(3 + LONGEST + 1, size)
        self.blocks = nn.ModuleList([Block(size, 4) for _ in range(layers)])
        self.head = nn.Sequential(nn.LayerNorm(size), nn.Linear(size, VOCABULARY))

    def forward(self, ids: Int[Tensor, "N T"], mask: Bool[Tensor, "N T"]) -> Float[Tensor, "N T V"]:
        x = self.token(ids) + self.place((mask.cumsum(1) - 1).clamp(min=0))
        length = ids.shape[1]
        # each token sees itself and the tokens before it, but no padding
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        sees = (causal & mask[:, None]) | torch.eye(length, dtype=torch.bool)
        for block in self.blocks:
            x = block(x, sees)
        logits: Tensor = self.head(x)
        return logits


def ask(count: int) -> Prompts:
    """Prompts of one to three digits, padded on the left."""
    lengths = torch.randint(1, 4, (count, 1))
    mask = torch.arange(3) >= 3 - lengths
    ids = torch.randint(2, VOCABULARY, (count, 3)).where(mask, PAD)
    prompts = Prompts(prompt_ids=ids, prompt_mask=mask, uid=objects(range(count)))
    prompts.meta["temperature"] = 1.0
    return prompts


@torch.no_grad()
def sample(model: Model, prompts: Prompts) -> Rollouts:
    """Draw a response to each prompt, token by token, until it ends."""
    ids, mask = prompts.prompt_ids, prompts.prompt_mask
    going = torch.ones(len(prompts), dtype=torch.bool)
    for _ in range(LONGEST):
        logits = model(ids, mask)[:, -1] / prompts.meta["temperature"]
        drawn = torch.distributions.Categorical(logits=logits).sample().where(going, PAD)
        ids, mask = torch.cat([ids, drawn[:, None]], 1), torch.cat([mask, going[:, None]], 1)
        going = going & (drawn != END)
    response, there = ids[:, -LONGEST:], mask[:, -LONGEST:]
    return extend(prompts, Rollouts, response_ids=response, response_mask=there, loss_mask=there)


def score(batch: Rollouts) -> Scored:
    """1 for the prompt's last token and an end, half of it for the token alone, something for an end at the right place."""
    right = batch.response_ids[:, 0] == batch.prompt_ids[:, -1]
    ends = batch.response_ids[:, 1] == END
    return extend(batch, Scored, rewards=0.6 * right.float() + 0.4 * ends.float())


def logp_of(model: Model, batch: SequenceProtocol) -> Float[Tensor, "N R"]:
    """Log-probability of each token of the responses; 0 where there is none."""
    ids = torch.cat([batch.prompt_ids, batch.response_ids], 1)
    mask = torch.cat([batch.prompt_mask, batch.response_mask], 1)
    length = batch.response_ids.shape[1]
    logp = model(ids, mask)[:, -length - 1 : -1].log_softmax(-1)  # logits at t are of the token at t + 1
    return logp.gather(-1, batch.response_ids[..., None])[..., 0] * batch.response_mask


def prepare(model: Model, batch: Scored, samples: int) -> Ready:
    """Advantages: how much better than the group, in its standard deviations, at each token."""
    group = groups(batch, "uid", size=samples)
    better = (batch.rewards - group.mean(batch.rewards)) / (group.std(batch.rewards) + 1e-4)
    with torch.no_grad():
        old_logp = logp_of(model, batch)
    return extend(batch, Ready, old_logp=old_logp, advantages=better[:, None] * batch.loss_mask)


@checked
def policy_loss(logp: Float[Tensor, "N R"], batch: PolicyLossProtocol, clip: float = 0.2) -> Float[Tensor, ""]:
    """PPO's clipped loss, over all tokens that count."""
    ratio = (logp - batch.old_logp).exp()
    clipped = ratio.clamp(1 - clip, 1 + clip)
    gains = torch.minimum(ratio * batch.advantages, clipped * batch.advantages)
    return -(gains * batch.loss_mask).sum() / batch.loss_mask.sum()


def train(seed: int = 0, steps: int = 150, prompts: int = 16, samples: int = 8) -> list[float]:
    """The mean reward of each step."""
    torch.manual_seed(seed)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    rewards: list[float] = []
    for step in range(steps):
        rollouts = sample(model, repeat(ask(prompts), samples))
        ready = prepare(model, score(rollouts), samples)
        for minibatch in ready.split(prompts * samples // 2, rng=seed + step):
            optimizer.zero_grad()
            policy_loss(logp_of(model, minibatch), minibatch).backward()
            optimizer.step()
        rewards.append(ready.rewards.mean().item())
        if step % 25 == 24:
            print(f"step {step + 1:4}   mean reward {sum(rewards[-25:]) / 25:.2f}")
    return rewards


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=150)
    given = parser.parse_args()
    train(given.seed, given.steps)
