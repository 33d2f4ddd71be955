"""Fragments in docs/changelog are of known types, and become plain bullets above what CHANGELOG.md has."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import typedbatch

ROOT = Path(typedbatch.__file__).parents[1]


def towncrier(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "towncrier", "build", "--version", "9.9.9", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A folder with the settings, the changelog and two fragments."""
    for name in ("pyproject.toml", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    fragments = tmp_path / "docs" / "changelog"
    fragments.mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "changelog" / "template.md", fragments)
    (fragments / "+cat.fixed.md").write_text("`cat` keeps\nits order.\n", encoding="utf-8")
    (fragments / "12.added.md").write_text("`split` takes a seed.\n", encoding="utf-8")
    return tmp_path


def test_a_draft_of_what_is_there_builds():
    done = towncrier("--draft")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("## 9.9.9\n")


def test_fragments_become_plain_bullets_above_the_rest(copy: Path):
    before = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    done = towncrier("--yes", cwd=copy)
    assert done.returncode == 0, done.stderr
    added = "## 9.9.9\n\n* `split` takes a seed.\n* `cat` keeps\n  its order.\n\n"
    head, line, rest = before.partition("below this line -->\n\n")
    assert (copy / "CHANGELOG.md").read_text(encoding="utf-8") == head + line + added + rest
    assert [path.name for path in (copy / "docs" / "changelog").iterdir()] == ["template.md"]


def test_a_fragment_of_an_unknown_type_is_an_error(copy: Path):
    (copy / "docs" / "changelog" / "13.fixd.md").write_text("x\n", encoding="utf-8")
    done = towncrier("--draft", cwd=copy)
    assert done.returncode == 1
    assert "Invalid news fragment name: 13.fixd.md" in done.stdout + done.stderr
