"""Settings that every test shares."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("default", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")

GAPS = set(Path(__file__).with_name("open_gaps.txt").read_text(encoding="utf-8").splitlines())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of what is known to be wrong still: the list is there to become empty."""
    for item in items:
        if item.nodeid in GAPS:
            item.add_marker(pytest.mark.xfail(reason="listed in tests/open_gaps.txt", strict=False))
