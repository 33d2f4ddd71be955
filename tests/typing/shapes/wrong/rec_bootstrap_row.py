import numpy as np
from jaxtyping import Float32
from typedbatch import Batch


class Rollout(Batch):
    rew: Float32[np.ndarray, "T B"]
    val: Float32[np.ndarray, "T+1 B"]
    done: Float32[np.ndarray, "T B"]

def advantages(roll: Rollout) -> Float32[np.ndarray, "T B"]:
    return roll.rew + 0.99 * roll.val[1:] * (1 - roll.done) - roll.val  # WRONG: T rows against T+1

def main() -> None:
    f = np.float32
    print(advantages(Rollout(rew=np.zeros((5, 2), f), val=np.zeros((6, 2), f), done=np.zeros((5, 2), f))))


if __name__ == "__main__":
    main()
