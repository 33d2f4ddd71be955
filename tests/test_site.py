"""The site: every public member of ``Batch`` is shown, every name is in the reference, and no link leads nowhere."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import FunctionType
from urllib.parse import unquote, urlparse

import pytest

import typedbatch
from typedbatch import Batch

ROOT = Path(typedbatch.__file__).parent.parent
HIDDEN = {"plain"}
"""Of ``Batch``: what no user calls."""
PUBLIC = ["typedbatch", "typedbatch.buffers", "typedbatch.training", "typedbatch.posttraining", "typedbatch.rows"]


def test_every_member_of_batch_has_an_example_on_its_page():
    page = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    members = {name for name in dir(Batch) if not name.startswith("_")} - HIDDEN
    assert not [name for name in sorted(members) if not re.search(rf"\.{name}\b", code)]


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90


class Links(HTMLParser):
    """The targets and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if found.get("id"):
            self.anchors.add(found["id"])
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages of the built site, by their paths."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", "--keep-going", str(ROOT / "docs"), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = [path for path in out.rglob("*.html") if "_modules" not in path.parts]
    return {path: Links(path.read_text(encoding="utf-8")) for path in pages}


def test_no_link_within_the_site_leads_nowhere(site):
    dead = []
    for path, page in site.items():
        for link in page.links:
            parts = urlparse(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            known = site.get(target)
            if not target.exists() or (known is not None and parts.fragment and parts.fragment not in known.anchors):
                dead.append(f"{path.name}: {link}")
    assert not dead


def test_every_public_name_is_in_the_reference_and_search_finds_codes(site):
    anchors = {anchor.rpartition(".")[2] for page in site.values() for anchor in page.anchors}
    modules = [importlib.import_module(module) for module in PUBLIC]
    values = {name: value for module in modules for name, value in vars(module).items() if name[0] != "_"}
    names = {name for name, value in values.items() if isinstance(value, (type, FunctionType))}
    assert {"Batch", "validate", "Collector", "ReplayBuffer", "to_layout", "union"} <= names
    assert not sorted(names - anchors)
    (index,) = {path.parent for path in site if path.name == "genindex.html"}
    found = (index / "searchindex.js").read_text(encoding="utf-8")
    assert "tb302" in found
    assert "extend" in found
