"""Pytest shows the values in failing asserts of test files alone, unless it is told of the helpers as well."""

import pytest

pytest.register_assert_rewrite("tests.ops.helpers")
