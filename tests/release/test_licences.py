"""Licences are read from what metadata has, and what somebody should look at stands out."""

from __future__ import annotations

import re
from email.message import Message
from pathlib import Path

import pytest

from tests.release import licences
from tests.release.licences import MISSING, UNKNOWN, Package, licence_of, needed, packages, summary, table
from tests.release.report import Wrong

ROOT = Path(__file__).resolve().parents[2]


def metadata(*lines: tuple[str, str]) -> Message:
    message = Message()
    for name, value in lines:
        message[name] = value
    return message


@pytest.mark.parametrize(
    ("lines", "licence"),
    [
        ([("License-Expression", "MIT"), ("License", "BSD")], "MIT"),
        ([("Classifier", "License :: OSI Approved :: MIT License"), ("License", "a text")], "MIT License"),
        ([("Classifier", "License :: OSI Approved"), ("License", "BSD\n\nCopyright")], "BSD"),
        ([("Classifier", "License :: A"), ("Classifier", "License :: B"), ("Classifier", "Typing :: Typed")], "A, B"),
        ([("License", "x" * 100)], "x" * 60),
        ([("License", "UNKNOWN")], UNKNOWN),
        ([("License", " ")], UNKNOWN),
        ([], UNKNOWN),
    ],
)
def test_where_a_licence_is_read_from(lines, licence):
    assert licence_of(metadata(*lines)) == licence


@pytest.mark.parametrize(
    ("licence", "why"),
    [
        ("MIT", ""), ("BSD-3-Clause", ""), ("GPL-3.0-only", "copyleft"),
        ("GNU Lesser General Public License v3 (LGPLv3)", "copyleft"), ("MPL-2.0 AND MIT", "copyleft"),
        ("LicenseRef-NVIDIA-Proprietary", "proprietary"), (UNKNOWN, UNKNOWN), (MISSING, MISSING),
    ],
)  # fmt: skip
def test_what_stands_out(licence, why):
    assert Package("x", "1", licence, ()).stands_out == why


def test_what_stands_out_is_bold_and_in_the_summary():
    found = [Package("one", "1", "MIT", ("torch",)), Package("two", "2", "GPL-3.0", ())]
    three, four = Package("three", "3", "MIT", ()), Package("four", "4", "GPL-3.0", ("cli", "lsp"))
    assert table([*found, three, four]).splitlines()[2:] == [
        "| GPL-3.0 | **two** 2 (brought by typedbatch itself), **four** 4 (brought by `cli`, `lsp`) |",
        "| MIT | one, three |",
    ]
    assert summary(found) == "Of 2 packages these stand out, in bold below: two (copyleft)."
    assert summary(found[:1]) == "Of 1 packages none is copyleft or proprietary, and each says its licence."


def test_what_extras_bring_is_found_with_what_that_needs():
    assert set(needed("typedbatch")) == {"numpy", "typing-extensions"}
    assert {"typer", "rich", "pygments"} < set(needed("typedbatch", ["cli"]))
    assert set(needed("no-such-package")) == set()
    found = {package.name: package for package in packages()}
    assert found["numpy"].extras == ()
    assert "cli" in found["Pygments"].extras
    assert "sphinx" not in {name.lower() for name in found}  # no user needs it


def test_the_page_names_what_the_pyproject_offers():
    page = (ROOT / "docs" / "evidence" / "licences.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"The extras are ([^.]*)\.", page)
    offered = set(licences.metadata.metadata("typedbatch").get_all("Provides-Extra"))
    assert set(re.findall(r"`(\w+)`", sentence)) == offered - {*licences.NOT_FOR_USERS, "all"}
    assert licences.MISSING not in page


def test_a_new_licence_that_stands_out_must_be_on_the_page(tmp_path, monkeypatch):
    page = tmp_path / "docs" / "evidence" / "licences.md"
    page.parent.mkdir(parents=True)
    old, missing = Package("old", "2", "MPL-2.0", ()), Package("away", "", MISSING, ())
    page.write_text(table([old, Package("other", "1", "MIT", ())]), encoding="utf-8")
    monkeypatch.setattr(licences, "packages", lambda: [old, missing])
    assert licences.are_named(tmp_path) == "old (copyleft)"
    monkeypatch.setattr(licences, "packages", lambda: [old, Package("new", "1", "GPL-3.0", ())])
    with pytest.raises(Wrong, match=r"(?s)look at them.*new: GPL-3\.0$"):
        licences.are_named(tmp_path)
