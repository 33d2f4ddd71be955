"""Off-policy estimates and a bootstrap."""

import numpy as np

from typedbatch import Batch, stack


def choices(policy, log):
    return np.array([policy.choose(row["ctx"]) for row in log])


def ips(policy, log, clip=None):
    w = Batch(match=choices(policy, log) == log["act"], inv=log["weight"])
    if clip:
        w.cut = np.minimum(w.inv, clip)
        used = w.cut
    else:
        used = w.inv
    w.value = w.match * used * log["rew"]
    out = Batch(ips=w.value.mean(), snips=w.value.sum() / max(1e-9, (w.match * used).sum()))
    if clip:
        out.clipped = (w.cut < w.inv).mean()
    out.matches = w.match.sum()
    return out


def bootstrap(policy, log, n, rng):
    rows: list[Batch] = []
    while len(rows) < n:
        again = log[rng.integers(0, len(log), len(log))]
        est = ips(policy, again, clip=10)
        rows.append(Batch(v=est.snips, clipped=est.clipped))
    table = stack(rows)
    table.v.sort()
    return Batch(low=table.v[0], high=table.v[-1], clipped=table.clipped.mean())
