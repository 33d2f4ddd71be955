"""Fixtures under which every test of distributions runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:  # torch takes proper samples of Wishart for singular ones and says so
        if "distributions" in item.path.parts:
            item.add_marker(pytest.mark.filterwarnings("ignore:Singular sample detected"))


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    """Tensors this small are several times slower when threads have to share a busy machine."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)
