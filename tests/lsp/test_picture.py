"""The picture of the page shows what the server answers."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.lsp.picture import picture

pytestmark = pytest.mark.slow
NEEDS_TORCH = True


def test_the_picture_is_up_to_date(cache, python):
    if str(python) != sys.executable:
        pytest.skip("one mypy is enough for a picture")
    drawn = Path(__file__).parents[2] / "docs" / "pictures" / "live.svg"
    assert drawn.read_text("utf-8") == picture(cache), "make pictures"
