"""Frame stacking and image observations: nested open batches, numpy."""
from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from typedbatch import Batch


class FrameStack:
    def __init__(self, size: int) -> None:
        self.frames: deque[Batch] = deque(maxlen=size)
        self.size = size

    def reset(self, first: Batch) -> Batch:
        for _ in range(self.size):
            self.frames.append(first)
        return self.observation()

    def step(self, frame: Batch) -> Batch:
        self.frames.append(frame)
        return self.observation()

    def observation(self) -> Batch:
        out = Batch.stack(list(self.frames), axis=0)
        out.cam = np.moveaxis(out.cam, 0, -1)
        return out


class Camera:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.state = Batch(pos=np.zeros(2), done=False)
        self.state.lidar = Batch(ranges=np.ones(8), valid=np.ones(8, bool))

    def shoot(self) -> Batch:
        frame = Batch(cam=self.rng.integers(0, 255, size=(8, 8), dtype=np.uint8))
        frame.pos = self.state.pos.copy()
        frame.lidar = self.state.lidar.copy()
        return frame

    def move(self, act: int) -> Batch:
        self.state.pos[act] += 0.5
        self.state.lidar.ranges *= 0.9
        self.state.lidar.valid = self.state.lidar.ranges > 0.5
        self.state.done = bool(np.abs(self.state.pos).max() > 2)
        return self.shoot()


def play(camera: Camera, stack: FrameStack, policy: Iterable[int]) -> Iterator[Batch]:
    obs = stack.reset(camera.shoot())
    camera.state.done = False
    for act in policy:
        obs_next = stack.step(camera.move(act))
        step = Batch(obs=obs, act=act, obs_next=obs_next)
        step.rew = float(step.obs_next.pos[-1].sum() - step.obs.pos[-1].sum())
        step.done = camera.state.done
        yield step
        if camera.state.done:
            return
        obs = obs_next


def augment(batch: Batch, rng: np.random.Generator) -> Batch:
    new = Batch(batch)
    new.obs = batch.obs.copy()
    new.obs.cam = np.roll(batch.obs.cam, int(rng.integers(-2, 3)), axis=2)
    new.obs.cam = new.obs.cam.astype(np.float32) / 255
    new.obs.pos = new.obs.pos + rng.normal(size=new.obs.pos.shape) * 0.01
    return new


def main() -> None:
    camera, stack = Camera(0), FrameStack(3)
    steps = list(play(camera, stack, [0, 1, 0, 1, 0, 0, 0, 1]))
    episode = Batch.stack(steps)
    print(len(episode), episode.obs.cam.shape, episode.obs.lidar.valid.shape)
    print(episode.rew.sum(), bool(episode.done[-1]))
    rng = np.random.default_rng(1)
    for mb in episode.split(3):
        mb.info = {}
        mb.info.size = len(mb)  # E: narrowed-write [only: zuban]
        new = augment(mb, rng)
        print(new.obs.cam.dtype, mb.obs.cam.dtype, new.info.size)
    first = episode[0]
    first.obs.lidar.ranges[:] = 0
    print(episode[:2].obs.lidar.ranges.sum().round(1))
    del episode.obs.lidar
    print(sorted(episode.obs.keys()))


if __name__ == "__main__":
    main()
