"""Rows, parts and copies of a plain batch, whose fields have other sizes, dtypes or kinds than those of the whole."""

import numpy as np
import torch
from typedbatch import Batch


def main() -> None:
    batch = Batch(obs=np.zeros((8, 3)), act=np.zeros(8), info=Batch(t=np.arange(8)))
    part = batch[:4]
    print(part.act + np.zeros(4), part.info.t + np.zeros(4))
    print(batch[np.array([1, 2])].obs + np.zeros((2, 3)))
    print(batch[0].obs + np.zeros(3))
    for minibatch in batch.split(2):
        print(minibatch.act + np.zeros(2))
    for row in batch:
        print(row.obs + np.zeros(3))
    print(Batch.cat([batch, batch]).act + np.zeros(16))
    print(Batch.stack([batch, batch]).act + np.zeros((2, 8)))
    print(Batch([{"a": np.zeros(3)}]).a + np.zeros((1, 3)))
    print((batch * 2).act + np.zeros(8))
    print(batch.to_torch().act @ torch.zeros(8, dtype=torch.float64))
    batch.to_torch_()
    print(batch.act @ torch.zeros(8, dtype=torch.float64))


if __name__ == "__main__":
    main()
