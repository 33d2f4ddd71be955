"""A robot with nested observations: cameras, joints, language; encoded and fused."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from typedbatch import Batch


class FakeRobot:
    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.joints = Batch(pos=np.zeros(4), vel=np.zeros(4))

    def observe(self) -> dict[str, Any]:
        return {
            "cams": {"wrist": self.rng.random((3, 8, 8)), "head": self.rng.random((3, 8, 8))},
            "proprio": {"joints": self.joints.pos.copy(), "gripper": np.array([1.0])},
            #! misspelt-read: "proprio": {"joints": self.joints.position.copy(), "gripper": np.array([1.0])},
            "goal": self.rng.integers(0, 5),
        }

    def step(self, action: np.ndarray) -> tuple[dict[str, Any], float]:
        self.joints.vel = 0.5 * self.joints.vel + 0.5 * action
        self.joints.pos = np.clip(self.joints.pos + 0.1 * self.joints.vel, -1, 1)
        #! misspelt-read: self.joints.pos = np.clip(self.joints.pos + 0.1 * self.joints.velocity, -1, 1)
        return self.observe(), -float(np.abs(self.joints.pos - 0.5).mean())


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten())
        self.proprio = nn.Linear(5, 8)
        self.goal = nn.Embedding(5, 4)

    def forward(self, images: list[Tensor], proprio: Tensor, goal: Tensor) -> Tensor:
        parts = [self.conv(image) for image in images]
        return torch.cat([*parts, self.proprio(proprio), self.goal(goal)], dim=-1)


def to_tensors(rows: list[dict[str, Any]]) -> Batch:
    obs = Batch(rows)
    return obs.to_torch(dtype=torch.float32)


class Policy:
    def __init__(self) -> None:
        self.encoder = Encoder()
        self.head = nn.LazyLinear(4)
        self.value = nn.LazyLinear(1)

    def __call__(self, obs: Batch) -> Batch:
        views = Batch(images=Batch(wrist=obs["cams"]["wrist"], head=obs["cams"]["head"]))
        views.body = torch.cat([obs["proprio"]["joints"], obs["proprio"]["gripper"]], -1)
        #! misspelt-item: views.body = torch.cat([obs["proprio"]["joints"], obs["propio"]["gripper"]], -1)
        views.images.wrist = views.images.wrist.flip(-1)
        #! misspelt-nested: views.images.wrist = views.images.wirst.flip(-1)
        features = self.encoder([views.images.wrist, views.images.head], views.body, obs["goal"].long())
        #! misspelt-nested: features = self.encoder([views.images.wrist, views.images.front], views.body, obs["goal"].long())
        out = Batch(act=torch.tanh(self.head(features)))
        out.value = self.value(features).squeeze(-1)
        return out


def main() -> None:
    torch.manual_seed(0)
    robots = [FakeRobot(seed) for seed in range(3)]
    policy = Policy()
    observations = [robot.observe() for robot in robots]
    history = []
    for _ in range(4):
        with torch.no_grad():
            out = policy(to_tensors(observations))
        results = [robot.step(action) for robot, action in zip(robots, out["act"].numpy(), strict=True)]
        observations = [result[0] for result in results]
        frame = Batch(obs=Batch.stack(observations), rew=np.array([result[1] for result in results]))
        frame.obs.proprio.speed = np.abs(np.stack([robot.joints.vel for robot in robots])).mean(-1)
        frame.value = out["value"].numpy()
        history.append(Batch(rew=frame.rew.mean(), speed=frame.obs.proprio.speed.max(), gap=(frame.value - frame.rew).std()))
        #! misspelt-nested: history.append(Batch(rew=frame.rew.mean(), speed=frame.obs.propio.speed.max(), gap=(frame.value - frame.rew).std()))
    table = Batch.stack(history)
    print(np.round(table.rew, 4).tolist(), np.round(table.speed, 4).tolist(), table.gap.shape)
    #! misspelt-read: print(np.round(table.rew, 4).tolist(), np.round(table.speeds, 4).tolist(), table.gap.shape)


if __name__ == "__main__":
    main()
