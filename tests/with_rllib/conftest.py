"""These tests need RLlib, which has an environment of its own; ``make test`` runs them there."""

import warnings
from importlib.util import find_spec

collect_ignore_glob = []
if find_spec("ray") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import ray.rllib.policy.sample_batch  # noqa: F401
