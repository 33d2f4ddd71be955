"""The pages about the plugin say what mypy says, and each error code has one."""

from __future__ import annotations

import re
from collections import Counter
from doctest import DocTestParser
from pathlib import Path

import pytest
from mypy.errorcodes import ErrorCode

import typedbatch
from tests.typing.caches import PLUGIN, warm
from tests.typing.checkers import run_tool
from tests.typing.marks import shown_in
from typedbatch.mypy import messages

DOCS = Path(typedbatch.__file__).parent.parent / "docs"
ERRORS = DOCS / "errors"
CODES = {value.code for value in vars(messages).values() if isinstance(value, ErrorCode)}
PAGES = [
    DOCS.parent / "README.md",
    *(DOCS / f"{name}.md" for name in ("plugin", "shapes", "start/research", "start/projects")),
    *sorted(ERRORS.glob("batch-*.md")),
]
BEFORE = """\
import numpy as np
from typedbatch import Batch, RolloutBatchProtocol
def learn(batch: RolloutBatchProtocol) -> None: ...
"""


def blocks(page: Path) -> list[str]:
    """The blocks of code with a report in them, or with functions of which nothing is reported, as whole programs."""
    found = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    programs = [block for block in found if "# error: " in block or ("\ndef " in block and ">>>" not in block)]
    return [block if "import" in block else BEFORE + block for block in programs]


@pytest.fixture(scope="module")
def printed(kept: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What mypy prints of each block; of all in one run."""
    place = tmp_path_factory.mktemp("pages")
    (place / "mypy.ini").write_text(PLUGIN.settings["mypy.ini"], encoding="utf-8")
    programs = {f"page_{number}.py": block for number, block in enumerate(b for page in PAGES for b in blocks(page))}
    for name, block in programs.items():
        (place / name).write_text(block, encoding="utf-8")
    command = ["mypy", f"--cache-dir={warm(kept, PLUGIN, place / 'cache')}", "--show-traceback", *programs]
    lines = [line.partition(":") for line in run_tool(command, place).stdout.splitlines()[:-1]]
    return {
        block: [f"page.py:{rest}".replace(name, "page.py") for file, _, rest in lines if file == name]
        for name, block in programs.items()
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_shows_what_mypy_prints(page: Path, printed: dict[str, list[str]]) -> None:
    for block in blocks(page):
        assert printed[block] == [f"page.py:{line}: error: {text}" for line, text in shown_in(block)]


# What the pages show at run time although mypy refuses it. numpy's types say that np.exp gives an array, and no type
# has the fields of a model that is made at run time.
REFUSED = {
    ("audit", "batch-shape"): 1, ("howto", "arg-type"): 1, ("offline", "import-untyped"): 1,
    ("validation", "arg-type"): 1, ("validators", "batch-argument"): 1, ("validators", "call-arg"): 2,
    ("why", "misc"): 1,
}  # fmt: skip
STRICT = {"no-any-return", "no-untyped-call", "no-untyped-def"}  # which examples are too short for


def typed_in(page: Path) -> str:
    """What a page has after its prompts, but for what raises an error."""
    blocks_ = re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    examples = [example for block in blocks_ for example in DocTestParser().get_examples(block)]
    return "".join(example.source for example in examples if example.exc_msg is None)


def test_mypy_takes_what_the_pages_show(kept: Path, tmp_path: Path) -> None:
    (tmp_path / "mypy.ini").write_text(PLUGIN.settings["mypy.ini"], encoding="utf-8")
    pages = {page.stem: page for page in sorted(DOCS.glob("*.md"))}
    pages |= {f"start_{page.stem}": page for page in sorted((DOCS / "start").glob("*.md"))}
    programs = {f"page_{name}.py": typed_in(page) for name, page in pages.items()}
    for name, program in programs.items():
        (tmp_path / name).write_text(program, encoding="utf-8")
    command = ["mypy", f"--cache-dir={warm(kept, PLUGIN, tmp_path / 'cache')}", "--show-traceback", *programs]
    said = run_tool(command, tmp_path).stdout
    found = re.findall(r"^page_(\w+)\.py:\d+: error: .*\[([\w-]+)\]$", said, re.MULTILINE)
    assert Counter((page, code) for page, code in found if code not in STRICT) == REFUSED, said
    assert sum(map(len, programs.values())) > 10_000


def test_each_page_has_such_a_block() -> None:
    assert all(blocks(page) for page in PAGES)


def test_each_code_has_a_page_and_each_page_a_code() -> None:
    assert {page.stem for page in ERRORS.glob("batch-*.md")} == CODES
    index = (DOCS / "plugin.md").read_text(encoding="utf-8")
    assert all(f"[`{code}`](errors/{code}.md)" in index for code in CODES)
