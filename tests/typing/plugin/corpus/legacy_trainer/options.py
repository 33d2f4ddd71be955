"""Global options, changed by the command line."""

from typedbatch import Batch

opts = Batch(lr=0.2, gamma=0.9, horizon=12, seed=0)
opts.explore = Batch(eps=0.3, decay=0.8)
opts.log = {"every": 2, "prefix": "run"}


def override(pairs):
    for pair in pairs:
        name, value = pair.split("=")
        opts[name] = float(value)
