"""Settings that every test shares."""

import pytest
from hypothesis import HealthCheck, settings

# Pytest shows the values in failing asserts of test files alone, unless it is told of the helpers as well.
pytest.register_assert_rewrite("tests.ops.helpers", "tests.tree.cases")

settings.register_profile("default", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")
