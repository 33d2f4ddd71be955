"""A recurrent actor: LSTM state is carried as a nested batch, trained on whole sequences."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import ActStateBatch, Batch, ModelOutputBatch, RecurrentStateBatch
from typedbatch.sequences import mask, pad


class RecurrentActor(nn.Module):
    def __init__(self, obs_dim: int = 2, hidden: int = 8) -> None:
        super().__init__()
        self.lstm = nn.LSTM(obs_dim, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 2)

    def forward(self, obs: Tensor, state: RecurrentStateBatch[Tensor] | None = None) -> ModelOutputBatch[Tensor]:
        if state is None:
            out, (h, c) = self.lstm(obs)
        else:
            # rows first in the batch, layers first in torch
            out, (h, c) = self.lstm(obs, (state.hidden.transpose(0, 1), state.cell.transpose(0, 1)))
            #! misspelt-read: out, (h, c) = self.lstm(obs, (state.hiden.transpose(0, 1), state.cell.transpose(0, 1)))
        logits = self.head(out)
        new_state = Batch(hidden=h.transpose(0, 1).detach(), cell=c.transpose(0, 1).detach())
        return ModelOutputBatch(logits=logits, act=logits.argmax(-1), state=new_state)
        #! forgotten-field: return ModelOutputBatch(logits=logits, state=new_state)


def act_once(actor: RecurrentActor, obs: np.ndarray, state: Batch | None) -> ActStateBatch[Tensor]:
    typed = None
    if state is not None:
        typed = Batch(hidden=state["hidden"], cell=state["cell"])
        #! missing-field: typed = Batch(hidden=state["hidden"], c=state["cell"])
    with torch.no_grad():
        out = actor(torch.as_tensor(obs)[:, None], typed)
    return ActStateBatch(act=out.act[:, -1], state=out.state)
    #! misspelt-read: return ActStateBatch(act=out.acts[:, -1], state=out.state)


def rollout(actor: RecurrentActor, lengths: list[int], rng: np.random.Generator) -> Batch:
    episodes = []
    for length in lengths:
        state = None
        steps = []
        cue = rng.choice([-1.0, 1.0])
        for t in range(length):
            obs = np.array([cue if t == 0 else 0.0, t / 10], np.float32)
            result = act_once(actor, obs[None], state)
            assert isinstance(result.state, Batch)
            state = result.state
            steps.append(Batch(obs=obs, act=int(result.act[0]), label=int(cue > 0)))
        episode = Batch.stack(steps)
        episode.correct = episode.act == episode.label
        #! misspelt-read: episode.correct = episode.action == episode.label
        episodes.append(episode)
    return Batch.cat(episodes)


def train(actor: RecurrentActor, steps: Batch, lengths: np.ndarray, optim: torch.optim.Optimizer) -> float:
    padded = pad(steps, lengths).to_torch()
    valid = torch.as_tensor(mask(lengths))
    logits = actor(padded["obs"]).logits
    losses = nn.functional.cross_entropy(logits.flatten(0, 1), padded["label"].flatten(), reduction="none")
    #! misspelt-item: losses = nn.functional.cross_entropy(logits.flatten(0, 1), padded["labels"].flatten(), reduction="none")
    loss = losses[valid.flatten()].mean()
    optim.zero_grad()
    loss.backward()
    optim.step()
    return loss.item()


def main() -> None:
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    actor = RecurrentActor()
    optim = torch.optim.Adam(actor.parameters(), lr=2e-2)
    lengths = [4, 6, 3]
    for epoch in range(4):
        steps = rollout(actor, lengths, rng)
        loss = train(actor, steps, np.array(lengths), optim)
        accuracy = float(steps["correct"].mean())
        #! misspelt-item: accuracy = float(steps["corect"].mean())
        print(f"epoch {epoch} loss {loss:.4f} accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
