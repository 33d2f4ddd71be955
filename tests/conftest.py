"""Settings that every test shares, and which tests are left to ``make check`` or to ``make release-check``."""

from __future__ import annotations

import fcntl
import gc
import os
import sysconfig
import venv
from pathlib import Path

# Tests run beside each other on every core, where threads of torch and numpy only wait for one another. It is set
# before these are imported, and holds for processes that tests start, too.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

# Pytest shows the values in failing asserts of test files alone, unless it is told of the helpers as well.
pytest.register_assert_rewrite("tests.ops.helpers", "tests.distributions.cases")

settings.register_profile("default", max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fuzz", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="without the tests that take long")
    parser.addoption("--release", action="store_true", help="with the tests that are left to make release-check")


def pytest_configure(config: pytest.Config) -> None:
    """Draw fewer examples in the tests that one runs before a commit."""
    gc.disable()  # until all tests are collected, of which nothing is thrown away
    if config.getoption("--quick") and not config.getoption("--hypothesis-profile"):
        settings.load_profile("quick")


@pytest.hookimpl(trylast=True)  # once folders have marked their tests
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow with ``--quick``, and what is for a release without ``--release``."""
    quick, release = config.getoption("--quick"), config.getoption("--release")
    left = [item for item in items if (quick and _is_slow(item)) or (not release and _is_for_a_release(item))]
    config.hook.pytest_deselected(items=left)
    left_out = set(left)
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish() -> None:
    """Leave the tests out of garbage collection, which buffers ask for: there are so many that it takes a second."""
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="session")
def kept(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that stays between runs, as mypy needs most of its time for torch and numpy; see tests.typing.caches."""
    cache = getattr(pytestconfig, "cache", None)
    return tmp_path_factory.mktemp("kept") if cache is None else Path(cache.mkdir("mypy"))


@pytest.fixture(scope="session")
def without_torch(kept: Path) -> Path:
    """A Python for mypy that finds numpy and this package but not torch, for which mypy needs four times as long."""
    folder = kept / "without-torch"
    with (kept / "without-torch.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            venv.create(folder, symlinks=True)
            packages = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
            for name in ("numpy", "jaxtyping", "iniconfig"):
                (packages / name).symlink_to(Path(sysconfig.get_path("purelib"), name))
            (packages / "this.pth").write_text(f"{Path(__file__).parents[1]}\n", encoding="utf-8")
    return folder / "bin" / "python"


def _is_slow(item: pytest.Item) -> bool:
    return item.get_closest_marker("slow") is not None and item.get_closest_marker("quick") is None


def _is_for_a_release(item: pytest.Item) -> bool:
    return item.get_closest_marker("release") is not None
