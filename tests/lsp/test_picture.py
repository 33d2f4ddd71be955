"""The picture of the page shows what the server answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lsp.picture import picture

pytestmark = pytest.mark.slow


def test_the_picture_is_up_to_date():
    drawn = Path(__file__).parents[2] / "docs" / "pictures" / "live.svg"
    assert drawn.read_text("utf-8") == picture(), "make pictures"
