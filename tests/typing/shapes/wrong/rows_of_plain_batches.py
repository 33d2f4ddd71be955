"""Rows of a plain batch, whose number is known."""

import numpy as np
from typedbatch import Batch


def main() -> None:
    batch = Batch(obs=np.zeros((8, 3)), act=np.zeros(8))
    print(batch[:4].obs + np.zeros((5, 3)))  # WRONG: four rows, not five


if __name__ == "__main__":
    main()
