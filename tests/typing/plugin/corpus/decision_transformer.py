"""Decision transformer: return-to-go, state and action tokens from logged episodes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch, BatchRecord, validate


class Context(BatchRecord):
    """Windows of K steps, padded on the left."""

    states: Tensor
    actions: Tensor
    rtg: Tensor
    timesteps: Tensor
    attention_mask: Tensor


def make_episode(rng: np.random.Generator, length: int) -> Batch:
    states = rng.normal(size=(length, 3)).astype(np.float32)
    actions = rng.integers(0, 2, size=length)
    episode = Batch(states=states, actions=actions)
    episode.rewards = states[:, 0] * (2 * episode.actions - 1)
    #! misspelt-read: episode.rewards = states[:, 0] * (2 * episode.action - 1)
    episode.rtg = np.cumsum(episode.rewards[::-1])[::-1].astype(np.float32)
    #! misspelt-read: episode.rtg = np.cumsum(episode.reward[::-1])[::-1].astype(np.float32)
    episode.timesteps = np.arange(length)
    return episode


def window(episode: Batch, end: int, k: int) -> Batch:
    start = max(0, end - k)
    piece = episode[start:end]
    missing = k - len(piece)
    out = Batch()
    for name in ("states", "actions", "rtg", "timesteps"):
        column = piece[name]
        out[name] = np.concatenate([np.zeros((missing, *column.shape[1:]), column.dtype), column])
    out.attention_mask = np.concatenate([np.zeros(missing, bool), np.ones(len(piece), bool)])
    return out


def get_batch(episodes: list[Batch], rng: np.random.Generator, size: int, k: int) -> Context:
    windows = []
    for _ in range(size):
        episode = episodes[rng.integers(len(episodes))]
        windows.append(window(episode, int(rng.integers(1, len(episode) + 1)), k))
    stacked = Batch.stack(windows).to_torch()
    #! wrong-kind: stacked = Batch.stack(windows)
    return validate(stacked, Context)


class DecisionTransformer(nn.Module):
    def __init__(self, k: int, width: int = 16) -> None:
        super().__init__()
        self.embed_state, self.embed_rtg = nn.Linear(3, width), nn.Linear(1, width)
        self.embed_action, self.embed_time = nn.Embedding(2, width), nn.Embedding(64, width)
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(width, 2)

    def forward(self, context: Context) -> Tensor:
        time = self.embed_time(context.timesteps)
        tokens = Batch(
            rtg=self.embed_rtg(context.rtg[..., None]) + time,
            #! misspelt-read: rtg=self.embed_rtg(context.returns_to_go[..., None]) + time,
            state=self.embed_state(context.states) + time,
            action=self.embed_action(context.actions) + time,
        )
        n, k = context.actions.shape
        sequence = torch.stack([tokens.rtg, tokens.state, tokens.action], dim=2).reshape(n, 3 * k, -1)
        #! misspelt-read: sequence = torch.stack([tokens.rtg, tokens.states, tokens.action], dim=2).reshape(n, 3 * k, -1)
        causal = torch.triu(torch.ones(3 * k, 3 * k, dtype=torch.bool), diagonal=1)
        hidden = self.encoder(sequence, mask=causal)
        logits: Tensor = self.head(hidden[:, 1::3])
        return logits


def train_step(model: DecisionTransformer, context: Context, optim: torch.optim.Optimizer) -> float:
    logits = model(context)
    valid = context.attention_mask
    #! misspelt-read: valid = context.mask
    loss = nn.functional.cross_entropy(logits[valid], context.actions[valid])
    optim.zero_grad()
    loss.backward()
    optim.step()
    return loss.item()


def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    episodes = [make_episode(rng, length) for length in (10, 15, 7)]
    model = DecisionTransformer(k=5)
    optim = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(12):
        loss = train_step(model, get_batch(episodes, rng, size=16, k=5), optim)
        #! wrong-argument: loss = train_step(model, window(episodes[0], 5, k=5), optim)
        if step % 4 == 3:
            print(f"{step} {loss:.4f}")


if __name__ == "__main__":
    main()
