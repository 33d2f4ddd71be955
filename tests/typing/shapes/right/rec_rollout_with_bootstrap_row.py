import numpy as np
from jaxtyping import Bool, Float32
from typedbatch import Batch


class Rollout(Batch):
    rew: Float32[np.ndarray, "T B"]
    val: Float32[np.ndarray, "T+1 B"]
    done: Bool[np.ndarray, "T B"]

class Targets(Batch):
    adv: Float32[np.ndarray, "M"]
    ret: Float32[np.ndarray, "M"]

def targets(roll: Rollout) -> Targets:
    cont = np.float32(0.99) * ~roll.done
    delta = roll.rew + cont * roll.val[1:] - roll.val[:-1]
    adv = np.zeros_like(delta)
    last = np.zeros(delta.shape[1], dtype=np.float32)
    for t in range(len(delta))[::-1]:
        last = delta[t] + 0.95 * cont[t] * last
        adv[t] = last
    return Targets(adv=adv.reshape(-1), ret=(adv + roll.val[:-1]).reshape(-1))

def main() -> None:
    f = np.float32
    out = targets(Rollout(rew=np.ones((5, 2), f), val=np.zeros((6, 2), f), done=np.zeros((5, 2), bool)))
    assert out.adv.shape == out.ret.shape == (10,) and out.adv.dtype == f


if __name__ == "__main__":
    main()
