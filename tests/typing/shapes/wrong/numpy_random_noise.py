import numpy as np
from jaxtyping import Float64


def noisy(act: Float64[np.ndarray, "N 2"], rng: np.random.Generator) -> Float64[np.ndarray, "N 2"]:
    return act + rng.normal(scale=0.1, size=(len(act), 3))  # WRONG: of another width


def main() -> None:
    print(noisy(np.zeros((4, 2)), np.random.default_rng(0)))


if __name__ == "__main__":
    main()
