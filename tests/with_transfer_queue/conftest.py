"""These tests need TransferQueue, which is in RLlib's environment; ``make check`` runs them there."""

import os
from importlib.util import find_spec

os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")

collect_ignore_glob = ["test_*.py"] if find_spec("transfer_queue") is None else []
