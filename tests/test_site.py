"""The site: every public member of ``Batch`` is shown, every name is in the reference, and no link leads nowhere."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import pydoc
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote, urlparse

import pytest
from sphinx.util.inventory import InventoryFile

import typedbatch
from tests import pictures
from typedbatch import Batch, RolloutBatch

pytestmark = pytest.mark.slow
ROOT = Path(typedbatch.__file__).parent.parent
ELSEWHERE = {f"typedbatch.bridges.{name}" for name in ("ray", "rllib", "transfer_queue", "verl")}
"""They import what is not installed here."""
INTERNAL = ("batch", "cli", "mypy", "protocols", "pytest_plugin", "records", "schema")
"""Modules whose public names are exported by ``typedbatch`` itself, or that have no functions to call."""


@pytest.mark.quick
def test_every_member_of_batch_has_an_example_on_its_page():
    page = (ROOT / "docs" / "batch.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    members = {name for name in dir(Batch) if not name.startswith("_")}
    assert not [name for name in sorted(members) if not re.search(rf"\.{name}\b", code)]


@pytest.mark.parametrize("name", ["stages.svg", "stages-posttraining.svg", "performance.svg", "notebook.html"])
def test_a_picture_is_as_it_is_made_now(name):
    assert (pictures.PICTURES / name).read_text(encoding="utf-8") == pictures.pictures()[name], "make pictures"


def test_pictures_show_what_is_declared():
    drawn = pictures.stages({RolloutBatch: "a <collector>"})
    assert ">terminated</text>" in drawn
    assert "a &lt;collector&gt;" in drawn
    assert 'class="optional"' not in drawn
    assert (
        pictures.bars(
            "| operation | typedbatch | tianshou | tensordict | optree |\n|-|\n| copy | 1.5 ±0.1 | - | 3 | < 2 |"
        ).count("<rect")
        == 8
    )


@pytest.mark.quick
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


def test_the_reference_can_be_read_without_the_site():
    page = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    names = re.findall(r"^\$ python -m pydoc (\S+)$", page, re.MULTILINE)
    assert len(names) == 2
    for name in names:
        printed = pydoc.render_doc(name, renderer=pydoc.plaintext)
        assert "Args:" in printed
        assert "Raises:" in printed


def test_every_public_name_is_in_the_reference(site):
    (path,) = {path.parent for path in site if path.name == "genindex.html"}
    inventory = InventoryFile.loads((path / "objects.inv").read_bytes(), uri="")
    described = {name.rpartition(".")[2] for kind in inventory.data.values() for name in kind}
    names = public_names()
    assert {"Batch", "validate", "Collector", "ReplayBuffer", "to_layout", "union"} <= names
    assert not sorted(names - described)


def test_every_public_name_has_an_example():
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    code = [
        block for page in pages for block in re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S)
    ]
    code += [path.read_text("utf-8") for path in (ROOT / "docs" / "examples").rglob("*.py")]
    for path in (ROOT / "typedbatch").rglob("*.py"):
        code += re.findall(r"^ *(?:>>>|\.\.\.) .*$", path.read_text("utf-8"), re.M)
    shown = set(re.findall(r"\w+", "\n".join(code)))
    assert not sorted(public_names() - shown)


@pytest.mark.parametrize("word", ["extend", "tb302"])
def test_search_finds(site, word):
    (path,) = {path.parent for path in site if path.name == "genindex.html"}
    assert re.search(rf'"?\b{word}\b"?:', (path / "searchindex.js").read_text(encoding="utf-8"))


def public_names() -> set[str]:
    """Return the public names of the modules whose own names do not begin with an underscore."""
    names: set[str] = set()
    for found in [*pkgutil.iter_modules(typedbatch.__path__), *bridges()]:
        module = found.name if found.name.startswith("typedbatch.") else f"typedbatch.{found.name}"
        if not found.name.startswith("_") and found.name not in INTERNAL and found.name not in ELSEWHERE:
            names |= offered(importlib.import_module(module))
    return names | set(typedbatch.__all__)


def bridges() -> list[pkgutil.ModuleInfo]:
    return list(pkgutil.iter_modules([str(ROOT / "typedbatch" / "bridges")], "typedbatch.bridges."))


def offered(module: ModuleType) -> set[str]:
    """``__all__``; without it what the module defines, and imports under its very name to hand it on."""
    if hasattr(module, "__all__"):
        return set(module.__all__)
    own = {name for name, value in vars(module).items() if getattr(value, "__module__", None) == module.__name__
           and (inspect.isclass(value) or inspect.isfunction(value))}  # fmt: skip
    handed_on = re.findall(r"import (\w+) as \1\b", inspect.getsource(module))
    return {name for name in {*own, *handed_on} if not name.startswith("_")}
