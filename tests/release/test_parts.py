"""The parts of ``make release-check`` find what they are for; the whole is run before a release."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import typedbatch
from tests.release import environments, listing, typed
from tests.release.__main__ import arguments
from tests.release.built import same_contents, uncommitted
from tests.release.report import Report, Wrong, run
from tests.typing.checkers import CHECKERS, CheckerMissingError, Diagnostic

ROOT = Path(typedbatch.__file__).parents[1]


def wheel(path: Path, **files: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return path


def test_a_line_for_each_check_and_a_count_of_failures(capsys):
    def fails() -> str:
        raise Wrong("this\nand that")

    report = Report()
    assert report.check("one", lambda number: f"{number} files", 3)
    assert not report.check("two", fails)
    report.note("three was not tried")
    assert report.failed == 1
    printed = capsys.readouterr().out
    assert printed == (
        "ok     one: 3 files  (0 s)\nWRONG  two:\n         this\n         and that\nnote   three was not tried\n"
    )


def test_a_command_that_fails_is_named_with_its_status_and_its_last_words():
    with pytest.raises(Wrong, match=r"(?s)-c .* ended with status 3\nline 1$"):
        run(sys.executable, "-c", "print('line 1'); raise SystemExit(3)")


def test_settings_of_python_are_not_passed_on(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    assert "/elsewhere" not in run(sys.executable, "-c", "import sys; print(sys.path)")


def test_wheels_are_the_same_only_if_every_file_is(tmp_path):
    one, two = wheel(tmp_path / "1.whl", a="x", b="y"), wheel(tmp_path / "2.whl", b="y", a="x")
    assert same_contents(one, two) == "2 files"
    with pytest.raises(Wrong, match=r"(?s)not the same files.*\na\nc$"):
        same_contents(one, wheel(tmp_path / "3.whl", b="y", a="z", c=""))


def test_what_is_not_committed_is_named(tmp_path):
    def git(*words: str) -> None:
        settings = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *settings, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init")
    (tmp_path / "a.py").write_text("")
    git("add", ".")
    git("commit", "-m", "a")
    assert uncommitted(tmp_path) == []
    (tmp_path / "a.py").write_text("1")
    (tmp_path / "b.py").write_text("")
    assert uncommitted(tmp_path) == ["a.py", "b.py"]


def test_links_that_pypi_cannot_follow_are_found():
    there = [f"{listing.SITE}batch.html#x", f"{listing.REPOSITORY}LICENSE", "https://example.org", "#example"]
    page = "".join(f"[x]({link})" for link in there)
    assert listing.links_lead_somewhere(page, ROOT) == "4 links"
    wrong = [
        "docs/batch.md", f"{listing.SITE}no_such_page.html", f"{listing.PICTURES}docs/no.svg", "http://example.org",
    ]  # fmt: skip
    with pytest.raises(Wrong, match="(?s)lead nowhere:\n" + "\n".join(wrong) + "$"):
        listing.links_lead_somewhere(page + "".join(f"[x]({link})" for link in wrong), ROOT)


def test_the_version_stands_in_one_place():
    if not (ROOT / ".git").exists():
        pytest.skip("this is no checkout")
    version = typedbatch.__version__
    assert listing.version_in_one_place(ROOT, version) == f"{version} in typedbatch/__init__.py"
    with pytest.raises(Wrong, match=r"9\.9\.9 should be set in typedbatch/__init__\.py alone, and is in \[\]"):
        listing.version_in_one_place(ROOT, "9.9.9")


def test_pythons_are_found_and_what_does_not_run_is_none_of_them(tmp_path):
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n", encoding="utf-8")
    shim.chmod(0o755)
    assert environments.version_of(shim) is None
    assert environments.version_of(tmp_path / "no_such_python") is None
    here = "{}.{}".format(*sys.version_info)
    assert environments.find_pythons()[here] == Path(sys.executable)
    assert environments.find_pythons([Path(sys.executable)])[here] == Path(sys.executable)


def test_a_python_that_is_given_must_run(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["release", "--python", "no/such/python"])
    with pytest.raises(SystemExit):
        arguments()
    assert "no/such/python is no Python that runs" in capsys.readouterr().err


class TestTypes:
    ENVIRONMENT = environments.Environment(Path(sys.prefix))
    WRONG = Diagnostic("program.py", 2, 'no attribute "b"\nmore')

    def look(self, place: Path, found: list[Diagnostic], monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(typed, "run", lambda *_: found)
        return typed.reports_the_wrong_line(CHECKERS["mypy"], "a\nb  # wrong\n", self.ENVIRONMENT, place / "x")

    def test_the_wrong_line_alone_is_well(self, tmp_path, monkeypatch):
        assert self.look(tmp_path, [self.WRONG], monkeypatch) == 'line 2 alone: no attribute "b"'

    @pytest.mark.parametrize("found", [[], [WRONG, Diagnostic("program.py", 1, "no module typedbatch")]])
    def test_anything_else_is_wrong(self, found, tmp_path, monkeypatch):
        with pytest.raises(Wrong, match="only line 2 should be reported"):
            self.look(tmp_path, found, monkeypatch)

    def test_a_checker_that_is_not_there_is_wrong(self, tmp_path, monkeypatch):
        def missing(*_: object) -> list[Diagnostic]:
            raise CheckerMissingError("mypy is not installed")

        monkeypatch.setattr(typed, "run", missing)
        with pytest.raises(Wrong, match="mypy is not installed"):
            typed.reports_the_wrong_line(CHECKERS["mypy"], "a  # wrong", self.ENVIRONMENT, tmp_path / "x")

    @pytest.mark.parametrize("name", ["ty", "zuban"])
    def test_the_program_is_right_but_for_that_line(self, name, tmp_path):
        assert "line 10 alone" in typed.reports_the_wrong_line(
            CHECKERS[name], typed.DECLARED, self.ENVIRONMENT, tmp_path / "x"
        )


def test_the_smoke_program_runs_here():
    said = run(sys.executable, "-I", Path(__file__).with_name("smoke.py"))
    assert said.startswith(f"typedbatch {typedbatch.__version__}, numpy ")


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
