"""Logged data with propensities."""

import numpy as np

from typedbatch import Batch, cat


def make_log(seed, n=60, arms=3, delayed=False):
    rng = np.random.default_rng(seed)
    theta = np.random.default_rng(99).normal(size=(arms, 2))
    log = Batch(ctx=rng.normal(size=(n, 2)))
    scores = log.ctx @ theta.T
    p = np.exp(scores * 0.3)
    log.prob = p / p.sum(1, keepdims=True)
    log.act = np.array([rng.choice(arms, p=q) for q in log.prob])
    log.rew = (scores[np.arange(n), log.act] + rng.normal(0, 0.1, n) > 0).astype(float)
    if delayed:
        log.delay = rng.integers(0, 5, n)
    log.prop = log.prob[np.arange(n), log.act]
    return log


def split(log, share=0.5):
    cut = int(len(log) * share)
    train, test = log[:cut], log[cut:]
    train.is_train = np.ones(cut, bool)
    return train, test


def merge(*logs):
    parts = [log.copy() for log in logs]
    for k, part in enumerate(parts):
        part.source = np.full(len(part), k)
        part.pop("delay", None)
        del part.prob
    out = cat(parts)
    out.weight = 1 / out.prop
    return out
