import numpy as np
from jaxtyping import Float32
from typedbatch import Batch


class Step(Batch):
    obs: Float32[np.ndarray, "B 4"]
    rew: Float32[np.ndarray, "B"]

class Rollout(Batch):
    obs: Float32[np.ndarray, "T B 4"]
    rew: Float32[np.ndarray, "T B"]

def collect(steps: list[Step]) -> Rollout:
    return Rollout(obs=np.stack([s.obs for s in steps]), rew=np.stack([s.rew for s in steps]))

def flat(roll: Rollout) -> Step:
    t, b = roll.rew.shape
    return Step(obs=roll.obs.reshape(t * b, 4), rew=roll.rew.reshape(-1))

def main() -> None:
    f = np.float32
    roll = collect([Step(obs=np.zeros((3, 4), f), rew=np.full(3, i, f)) for i in range(5)])
    assert roll.obs.shape == (5, 3, 4) and flat(roll).rew.shape == (15,)


if __name__ == "__main__":
    main()
