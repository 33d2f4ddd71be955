"""Settings that every test shares, and which tests ``make test`` leaves to ``make check``."""

from __future__ import annotations

import gc
import os
from pathlib import Path

# Tests run beside each other on every core, where threads of torch and numpy only wait for one another. It is set
# before these are imported, and holds for processes that tests start, too.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

# Pytest shows the values in failing asserts of test files alone, unless it is told of the helpers as well.
pytest.register_assert_rewrite("tests.ops.helpers", "tests.tree.cases")

settings.register_profile("default", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")

SLOW = (
    "tests/buffers/test_killed_process.py",
    "tests/buffers/test_two_processes.py",
    "tests/editor",
    "tests/files/test_atomic.py::test_a_process_that_is_killed",
    "tests/files/test_atomic.py::test_a_disk_that_is_full",
    "tests/posttraining/test_example.py",
    "tests/test_from_tianshou.py",
    "tests/test_infer.py::test_a_checker_reads_it",
    "tests/test_pytest_plugin.py",
    "tests/test_sdist.py",
    "tests/test_site.py",
    "tests/test_template.py::test_mistakes",
    "tests/training/test_examples.py",
    "tests/typing",
)
"""What takes long, as it starts processes: language servers, six type checkers, programs that are killed."""

QUICK = (
    "tests/buffers/test_killed_process.py::test_a_dropnull_that_is_killed_leaves_only_rows_that_were_there[ReplayBuffer]",
    "tests/buffers/test_two_processes.py::test_the_lock_of_another_process_goes_when_it_is_killed",
    "tests/posttraining/test_example.py::test_the_reward_rises[1]",
    "tests/test_from_tianshou.py::test_both_programs_learn_the_same[ppo]",
    "tests/test_site.py::test_every_member",
    "tests/test_site.py::test_the_readme",
    "tests/training/test_examples.py::test_ppo[1]",
    "tests/typing/plugin/test_near.py",
    "tests/typing/plugin/test_places.py",
)
"""One or more of each that ``make test`` runs all the same."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="without the tests that take long")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--quick"):
        slow = [item for item in items if _is_slow(item.nodeid)]
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not _is_slow(item.nodeid)]


def pytest_collection_finish() -> None:
    """Leave the tests out of garbage collection, which buffers ask for: there are so many that it takes a second."""
    gc.freeze()


@pytest.fixture(scope="session")
def kept(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that stays between runs, as mypy needs most of its time for torch and numpy; see tests.typing.caches."""
    cache = getattr(pytestconfig, "cache", None)
    return tmp_path_factory.mktemp("kept") if cache is None else Path(cache.mkdir("mypy"))


def _is_slow(name: str) -> bool:
    return name.startswith(SLOW) and not name.startswith(QUICK)
