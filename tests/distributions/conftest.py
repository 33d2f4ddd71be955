"""Fixtures under which every test of distributions runs."""

from __future__ import annotations

import pytest
import torch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:  # torch takes proper samples of Wishart for singular ones and says so
        if "distributions" in item.path.parts:
            item.add_marker(pytest.mark.filterwarnings("ignore:Singular sample detected"))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(7)
