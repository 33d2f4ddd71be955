"""A made-up arm and its sensors."""

import numpy as np

from typedbatch import Batch, validate

from robolab.types import Demo, HasProprio, Proprio, Sensors, Vision


class Arm:
    def __init__(self, seed: int, with_depth: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.state = Batch(q=np.zeros(3, np.float32), dq=np.zeros(3, np.float32))
        self.state.target = self.rng.uniform(-1, 1, 3).astype(np.float32)
        self.with_depth = with_depth
        if with_depth:
            self.state.floor = np.float32(0.5)

    def read(self) -> Sensors:
        image = np.outer(self.state.q, self.state.target).astype(np.float32)
        #! misspelt-read: image = np.outer(self.state.q, self.state.goal).astype(np.float32)
        proprio = Proprio(q=self.state.q, dq=self.state.dq)
        #! misspelt-keyword: proprio = Proprio(q=self.state.q, qd=self.state.dq)
        if self.with_depth:
            return Sensors(proprio=proprio, vision=Vision(rgb=image, depth=image + self.state.floor))
        return Sensors(proprio=proprio, vision=Vision(rgb=image))

    def expert(self) -> np.ndarray:
        pull = self.state.target - self.state.q
        return np.asarray(pull - 0.5 * self.state.dq, np.float32)

    def move(self, act: np.ndarray) -> float:
        self.state.dq = np.float32(0.9) * self.state.dq + np.float32(0.1) * act
        self.state.q = self.state.q + np.float32(0.3) * self.state.dq
        error = Batch(pos=np.abs(self.state.q - self.state.target).mean())
        error.vel = np.abs(self.state.dq).mean()
        return float(error.pos + 0.1 * error.vel)
        #! misspelt-read: return float(error.position + 0.1 * error.vel)


def speed(obs: HasProprio) -> float:
    return float(np.linalg.norm(obs.proprio.dq))
    #! misspelt-nested: return float(np.linalg.norm(obs.proprio.velocity))


def record(arm: Arm, steps: int) -> tuple[list[Demo], list[float]]:
    demos, speeds = [], []
    for _ in range(steps):
        obs = arm.read()
        act = arm.expert() + arm.rng.normal(0, 0.02, 3).astype(np.float32)
        demos.append(Demo(obs=obs, act=act))
        #! forgotten-field: demos.append(Demo(obs=obs))
        speeds.append(speed(validate(Batch(proprio=obs.proprio), HasProprio)))
        arm.move(act)
    return demos, speeds
