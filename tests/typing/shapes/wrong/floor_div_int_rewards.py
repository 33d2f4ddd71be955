import numpy as np
from jaxtyping import Float, Int


def normalised(rewards: Int[np.ndarray, "T"], horizon: int) -> Float[np.ndarray, "T"]:
    return rewards // horizon  # WRONG: // of integers is an integer, small rewards become 0

def main() -> None:
    print(normalised(np.array([1, 7, 12]), 10))


if __name__ == "__main__":
    main()
