"""These tests need verl, which has an environment of its own; ``make check`` runs them there."""

import warnings
from importlib.util import find_spec

collect_ignore_glob = []
if find_spec("verl") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import verl.protocol  # noqa: F401
