"""Indices of batches, which select rows or name a field."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

import numpy as np

from typedbatch import Batch

batch = Batch(obs_0=np.zeros(3), obs_1=np.zeros(3))

for path in [Path("runs/obs_0.npz")]:
    batch[path.stem].sum()
batch[random.choice(["obs_0", "obs_1"])].sum()
batch[os.path.basename("runs/obs_0")].sum()
batch[json.loads(sys.argv[1])["field"]].sum()
for number in range(2):
    batch["obs_%d" % number].sum()  # noqa: UP031
    batch["obs_" + str(number)].sum()
for name in np.unique(["obs_0", "obs_1"]):
    batch[name].sum()
for name in np.array(["obs_0", "obs_1"]):
    batch[name].sum()
batch[np.random.choice(["obs_0", "obs_1"])].sum()
generator = np.random.default_rng(0)
batch[generator.choice(list(batch.keys()))].sum()

team = Batch(red=Batch(rew=np.zeros(3)), blue=Batch(rew=np.zeros(3)))
team[generator.choice(["red", "blue"])].rew.sum()
team[generator.choice(len(team))].rew  # E: rew
team[generator.choice(3, 2)].rew  # E: rew

order = np.argsort(batch.obs_0)
batch[order].obs_2  # E: obs_2
batch[order + 1].obs_2  # E: obs_2
high = batch.obs_0 > 0
batch[high].obs_2  # E: obs_2
team[high & ~np.zeros(3, bool)].rew  # E: rew


def loaded():
    return json.loads(sys.argv[1])


np.zeros_like(loaded()).obs_0
np.concatenate([loaded(), loaded()]).obs_0
(loaded() * np.ones(3)).obs_0
(np.ones(3) * 2).obs_0  # E: obs_0


def iterate(pairs, size):
    for rows in sys.stdin:
        yield pairs[rows]


for part in iterate(Batch(prompt=np.zeros(3), chosen=Batch(ids=np.zeros(3)), rejected=Batch(ids=np.zeros(3))), 2):
    part.prompt
    part.ids
    part.rew  # E: rew
    part.margin = np.ones(3)
    part.margin
    if part.get("weight") is not None:
        part.weight
