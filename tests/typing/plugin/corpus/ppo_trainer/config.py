"""Settings as batches, so that they nest, print and pickle like everything else."""

from __future__ import annotations

from typedbatch import Batch

algo = Batch(gamma=0.97, gae_lambda=0.9, clip=0.2, vf_coef=0.5)
algo.epochs = 2
algo.minibatch = 16

run = Batch(seed=3, iterations=3, steps=32)
run.net = Batch(hidden=24, obs_dim=3, act_dim=2)
