"""A notebook on offline data: exploration of an open batch, no functions at all but two."""
# %% [markdown]
# # What is in the data?
# %%
from __future__ import annotations

import numpy as np

from typedbatch import Batch

rng = np.random.default_rng(11)

# %%
raw = Batch(
    obs=rng.normal(size=(300, 3)),
    act=rng.integers(0, 3, size=300),
    rew=rng.random(300),
    info=[{"env": int(i % 3), "speed": float(i)} for i in range(300)],
)
raw.done = np.arange(300) % 25 == 24
print(raw.shape, raw.info.env[:4], raw.info.speed.mean())

# %% episodes
ends = np.flatnonzero(raw.done)
episodes = [raw[start + 1 : end + 1] for start, end in zip([-1, *ends[:-1]], ends, strict=True)]
table = Batch.stack([Batch(length=len(e), ret=e.rew.sum(), env=e.info.env[0]) for e in episodes])
table.mean = table.ret / table.length
table.rank = table.ret.argsort()[::-1].argsort()
print(table.length.min(), table[table.rank == 0].ret, table.mean.std() < 1)

# %% per action
per_action = Batch()
for a in range(3):
    chosen = raw[raw.act == a]
    per_action[f"a{a}"] = Batch(n=len(chosen), rew=chosen.rew.mean())
    per_action[f"a{a}"].obs = chosen.obs.mean(0)
print(per_action.a0.n + per_action.a1.n + per_action.a2.n, per_action.a1.obs.shape)

# %% normalise in place
raw.norm = Batch(mean=raw.obs.mean(0), std=raw.obs.std(0))
stats = raw.pop("norm")
raw.obs -= stats.mean
raw.obs /= stats.std
print(abs(raw.obs.mean()) < 1e-9, raw.obs.std().round(3))


# %% one function
def top(batch: Batch, share: float) -> Batch:
    order = np.argsort(batch.rew)[::-1]
    kept = batch[order[: int(len(batch) * share)]]
    kept.share = np.full(len(kept), share)
    return kept


def weights(batch: Batch, temperature: float) -> Batch:
    batch.weight = np.exp(batch.rew / temperature)
    batch.weight /= batch.weight.sum()
    return batch


# %%
for share in (0.5, 0.1):
    best = top(raw, share)
    print(len(best), best.rew.min().round(2), best.share[0], "share" in raw)
weighted = weights(raw, 0.1)
print(weighted is raw, raw.weight.sum().round(3), raw.weight.argmax() == raw.rew.argmax())

# %% lists and numbers, as one types them into a notebook
demo = Batch()
demo.rew = [1.0, 2.0, 3.0]
demo.act = [0, 1, 0]
demo.done = [False, False, True]
print(demo.rew.mean(), demo[1:].rew.sum())  # E: narrowed-write [only: zuban]
demo.gamma = 0.9
demo.info = dict(env_id=[1, 2, 3])
print(demo.info.env_id.max(), demo.gamma * 2)  # E: narrowed-write [only: zuban]
demo.obs = {"cam": np.zeros((3, 2)), "pos": [1, 2, 3]}
print(demo.obs.cam.shape, demo.obs.pos.sum())  # E: narrowed-write [only: zuban]
demo.next = demo.obs
demo.next.cam += 1  # E: narrowed-write [only: zuban]
print(demo.obs.cam.sum())  # E: narrowed-write [only: zuban]
