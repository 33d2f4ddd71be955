"""Run it."""

import numpy as np

from ppo_trainer.trainer import Trainer


def main() -> None:
    np.random.seed(0)
    print([round(reward, 4) for reward in Trainer().fit()])


if __name__ == "__main__":
    main()
