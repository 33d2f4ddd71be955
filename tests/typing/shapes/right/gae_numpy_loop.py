import numpy as np
from beartype import beartype
from jaxtyping import Bool, Float32, jaxtyped


@jaxtyped(typechecker=beartype)
def gae(
    rew: Float32[np.ndarray, "T B"], val: Float32[np.ndarray, "T B"], last: Float32[np.ndarray, "B"],
    done: Bool[np.ndarray, "T B"],
) -> Float32[np.ndarray, "T B"]:
    adv = np.zeros_like(rew)
    carry: np.ndarray | float = 0.0
    for t in reversed(range(len(rew))):
        nonterminal = 1.0 - done[t]
        nxt = last if t == len(rew) - 1 else val[t + 1]
        delta = rew[t] + 0.99 * nxt * nonterminal - val[t]
        carry = delta + 0.99 * 0.95 * nonterminal * carry
        adv[t] = carry
    return adv

def main() -> None:
    f = np.float32
    assert gae(np.ones((5, 2), f), np.zeros((5, 2), f), np.zeros(2, f), np.zeros((5, 2), bool)).shape == (5, 2)


if __name__ == "__main__":
    main()
