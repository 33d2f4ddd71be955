"""A recurrent policy in torch: the state goes along as a nested batch."""
from __future__ import annotations

import torch
from torch import Tensor, nn

from typing_extensions import override

from typedbatch import Batch, BatchRecord, checked


class Hidden(BatchRecord):
    h: Tensor
    c: Tensor


class RnnOut(BatchRecord):
    act: Tensor
    logits: Tensor
    state: Hidden


class Recurrent(nn.Module):
    def __init__(self, inputs: int, hidden: int, actions: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(inputs, hidden)
        self.head = nn.Linear(hidden, actions)
        self.hidden = hidden

    def zero(self, n: int) -> Hidden:
        return Hidden(h=torch.zeros(n, self.hidden), c=torch.zeros(n, self.hidden))

    @override
    def forward(self, obs: Tensor, state: Hidden) -> RnnOut:
        h, c = self.cell(obs, (state.h, state.c))
        logits: Tensor = self.head(h)
        return RnnOut(act=logits.argmax(-1), logits=logits, state=Hidden(h=h, c=c))

    def only_h(self, n: int) -> Hidden:
        return Hidden(h=torch.zeros(n, self.hidden))  # E: user-missing

    def old_names(self, state: Hidden) -> Tensor:
        return torch.cat([state.hidden, state.c])  # E: user-misspelt


@checked
def mask_done(state: Hidden, done: Tensor) -> Hidden:
    keep = (~done).float()[:, None]
    return Hidden(h=state.h * keep, c=state.c * keep)


def rollout(policy: Recurrent, steps: int, envs: int) -> Batch:
    data = Batch()
    state = policy.zero(envs)
    frames: list[Batch] = []
    for t in range(steps):
        obs = torch.randn(envs, 3)
        out: RnnOut = policy(obs, state)
        frame = Batch(obs=obs, act=out.act, state=state)
        frame.done = torch.arange(envs) == t
        frame.info = Batch(t=torch.full((envs,), t))
        frame.state.h = frame.state.h.detach()
        frames.append(frame)
        state = mask_done(out.state, frame.done)
    data.frames = Batch.stack(frames)
    data.last = state
    return data


def resume(policy: Recurrent, saved: Batch, obs: Tensor) -> Tensor:
    state: Hidden = saved  # E: user-unchecked
    out: RnnOut = policy(obs, state)
    return out.act


def main() -> None:
    policy = Recurrent(3, 8, 2)
    with torch.no_grad():
        data = rollout(policy, 5, 4)
    frames = data.frames
    print(frames.obs.shape, frames.state.h.shape, data.last.c.shape)
    for step in frames:
        step.ended = step.done.sum()
        print(step.info.t[0].item(), step.ended.item())
    with torch.no_grad():
        print(resume(policy, Batch(h=data.last.h, c=data.last.c), torch.zeros(4, 3)))
    del frames.info
    print(sorted(frames.keys()))


if __name__ == "__main__":
    main()
