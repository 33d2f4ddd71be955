"""Nested observations: two cameras and proprioception, stacked frames, augmentation and a small encoder."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Optional

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import Batch, BatchRecord, cat, stack, validate

Img = NDArray[np.uint8]
CAMERAS = ("front", "wrist")


class Cameras(BatchRecord):
    front: Tensor
    wrist: Tensor


class RobotObs(BatchRecord):
    cam: Cameras
    joints: Tensor


def render(rng: np.random.Generator, joints: NDArray[np.float32], depth: bool) -> Batch:
    view = Batch(cam={c: rng.integers(0, 255, (8, 8), dtype=np.uint8) for c in CAMERAS}, joints=joints)
    view.gripper = float(joints[0] > 0)
    if depth:
        view.cam.depth = rng.random((8, 8)).astype(np.float32)
    return view


class FrameStack:
    def __init__(self, k: int) -> None:
        self.frames: deque[Batch] = deque(maxlen=k)
        self.last: Optional[Batch] = None

    def push(self, obs: Batch) -> Batch:
        if not self.frames:
            while len(self.frames) < (self.frames.maxlen or 1):
                self.frames.append(obs)
        else:
            self.frames.append(obs)
        cams = stack([f["cam"] for f in self.frames])
        out = Batch(cam=cams, joints=obs["joints"])
        out.age = np.arange(len(self.frames))[::-1]
        self.last = out
        return out

    def newest(self) -> Img:
        assert self.last is not None
        image: Img = self.last.cam.front[-1]
        return image


def shift(batch: Batch, rng: np.random.Generator) -> Batch:
    moved = batch.copy()
    for name in CAMERAS:
        dx = int(rng.integers(-1, 2))
        moved["cam"][name] = np.roll(batch["cam"][name], dx, axis=-1)
    moved.shifted = np.ones(len(batch["joints"]), bool)
    return moved


@contextmanager
def normalised(batch: Batch) -> Iterator[Batch]:
    scaled = Batch(batch)
    scaled.cam = Batch({c: batch["cam"][c].astype(np.float32) / 255 for c in CAMERAS})
    scaled.mean = np.mean([scaled.cam.front.mean(), scaled.cam.wrist.mean()])
    try:
        yield scaled
    finally:
        scaled.clear()


class Encoder(nn.Module):
    def __init__(self, k: int) -> None:
        super().__init__()
        self.towers = nn.ModuleDict({c: nn.Linear(k * 64, 8) for c in CAMERAS})
        self.head = nn.Linear(8 * len(CAMERAS) + 3, 2)

    def forward(self, obs: RobotObs) -> Tensor:
        parts = [self.towers["front"](obs.cam.front.flatten(1)), self.towers["wrist"](obs.cam.wrist.flatten(1))]
        y: Tensor = self.head(torch.cat([*parts, obs.joints], -1))
        return y


def collect(seed: int, steps: int, depth: bool = False) -> Batch:
    rng = np.random.default_rng(seed)
    joints = np.zeros(3, np.float32)
    fs = FrameStack(2)
    rows: list[Batch] = []
    for t in range(steps):
        raw = render(rng, joints, depth)
        row = Batch(obs=fs.push(raw), grip=raw["gripper"])
        act = rng.normal(size=2).astype(np.float32)
        joints = joints + 0.1 * np.append(act, 0.01).astype(np.float32)
        row.act = act
        row.rew = -float(np.abs(joints).sum())
        if depth and t % 2 == 0:
            row.keyframe = t
        rows.append(row)
    if depth:
        keys = [int(r.keyframe) for r in rows if "keyframe" in r]
        print("keyframes", keys, fs.newest().shape)
    for r in rows:
        r.pop("keyframe", None)
    return stack(rows)


def to_obs(batch: Batch) -> RobotObs:
    t = batch.to_torch(dtype=torch.float32)
    return validate(Batch(cam=t["cam"], joints=t["joints"]), RobotObs)


def main() -> None:
    torch.manual_seed(0)
    net = Encoder(2)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    rng = np.random.default_rng(1)
    plain, deep = collect(0, 12), collect(1, 6, depth=True)
    deep_obs: Any = deep["obs"]
    print("depth", deep_obs.cam.depth.shape, "front", plain["obs"]["cam"]["front"].dtype)
    del deep_obs.cam["depth"]
    both = cat([plain, deep])
    both.index = np.arange(len(both))
    losses: list[float] = []
    for epoch in range(3):
        for i, mb in enumerate(both.split(6, rng=rng)):
            obs = shift(mb["obs"], rng)
            with normalised(obs) as scaled:
                pred = net(to_obs(scaled))
                brightness = float(scaled["mean"])
            loss = ((pred - torch.as_tensor(mb["act"])) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            losses.append(float(loss.detach()))
            if epoch == 0 and i == 0:
                first = Batch(brightness=brightness, ids=mb.index)
                print("first", first.ids.tolist(), f"{first.brightness:.2f}")
    print("loss", losses[0] > losses[-1], both.index[-1], both.rew.mean().round(2))


if __name__ == "__main__":
    main()
