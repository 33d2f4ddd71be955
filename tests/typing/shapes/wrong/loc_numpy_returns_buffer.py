import numpy as np


def main() -> None:
    rewards = np.zeros((128, 8), dtype=np.float32)
    last_value = np.zeros((8, 1), dtype=np.float32)
    returns = rewards + 0.99 * last_value  # WRONG: (128, 8) + (8, 1), last_value should be (8,)
    print(returns.shape)


if __name__ == "__main__":
    main()
