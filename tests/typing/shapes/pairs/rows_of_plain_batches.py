"""Rows, parts and copies of a plain batch, whose fields have other sizes, dtypes or kinds than those of the whole."""
# wrong: """Rows of a plain batch, whose number is known."""

import numpy as np
import torch
# wrong: without this line
from typedbatch import Batch


def main() -> None:
    batch = Batch(obs=np.zeros((8, 3)), act=np.zeros(8), info=Batch(t=np.arange(8)))
    # wrong: batch = Batch(obs=np.zeros((8, 3)), act=np.zeros(8))
    part = batch[:4]
    # wrong: print(batch[:4].obs + np.zeros((5, 3)))  # WRONG: four rows, not five
    print(part.act + np.zeros(4), part.info.t + np.zeros(4))
    # wrong: without this line
    print(batch[np.array([1, 2])].obs + np.zeros((2, 3)))
    # wrong: without this line
    print(batch[0].obs + np.zeros(3))
    # wrong: without this line
    for minibatch in batch.split(2):
    # wrong: without this line
        print(minibatch.act + np.zeros(2))
        # wrong: without this line
    for row in batch:
    # wrong: without this line
        print(row.obs + np.zeros(3))
        # wrong: without this line
    print(Batch.cat([batch, batch]).act + np.zeros(16))
    # wrong: without this line
    print(Batch.stack([batch, batch]).act + np.zeros((2, 8)))
    # wrong: without this line
    print(Batch([{"a": np.zeros(3)}]).a + np.zeros((1, 3)))
    # wrong: without this line
    print((batch * 2).act + np.zeros(8))
    # wrong: without this line
    print(batch.to_torch().act @ torch.zeros(8, dtype=torch.float64))
    # wrong: without this line
    batch.to_torch_()
    # wrong: without this line
    print(batch.act @ torch.zeros(8, dtype=torch.float64))
    # wrong: without this line


if __name__ == "__main__":
    main()
