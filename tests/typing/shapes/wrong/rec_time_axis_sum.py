import numpy as np
from jaxtyping import Bool, Float32
from typedbatch import Batch


class Rollout(Batch):
    rew: Float32[np.ndarray, "T B"]
    done: Bool[np.ndarray, "T B"]
    boot: Float32[np.ndarray, "B"]

def episode_return(roll: Rollout) -> Float32[np.ndarray, "B"]:
    return (roll.rew * ~roll.done).sum(axis=1) + roll.boot  # WRONG: axis=1 sums environments, (T,) + (B,)

def main() -> None:
    f = np.float32
    roll = Rollout(rew=np.zeros((5, 2), f), done=np.zeros((5, 2), bool), boot=np.zeros(2, f))
    print(episode_return(roll).shape)


if __name__ == "__main__":
    main()
