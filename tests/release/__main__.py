"""``make release-check``, less tests: all that can be looked at before a release is uploaded, one line per check."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.release import built, environments, licences, listing, typed
from tests.release.built import Built
from tests.release.environments import SUPPORTED, Environment, make_environment
from tests.release.report import Report, Wrong

ROOT = Path(__file__).resolve().parents[2]
SMOKE = Path(__file__).with_name("smoke.py")
NEEDLESS = ("torch", "pydantic", "mypy", "typer", "rich")


def main() -> int:
    """Do all checks; 1 if one found something, and then nothing is put into dist."""
    given = arguments()
    report = Report()
    for name in built.uncommitted(ROOT):
        report.note(f"{name} is not as in HEAD, and HEAD is what is checked")
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        source = built.clone(ROOT, place / "source")
        if not report.check("sdist and wheel are built from HEAD", build, source, place / "dist"):
            return 1
        files = built.built_in(place / "dist")
        check_files(report, files, source, place)
        check_installs(report, files, place)
        check_pythons(report, files, environments.find_pythons(given.python), source, place)
        check_types(report, files, source, place)
        if report.failed == 0:
            shutil.copytree(place / "dist", ROOT / "dist", dirs_exist_ok=True)
    print(f"{report.failed} found something wrong" if report.failed else "all is well; the files are in dist")
    return min(report.failed, 1)


def arguments() -> argparse.Namespace:
    """Of the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("--python", action="append", default=[], type=a_python, help="one to try too; again for more")
    return parser.parse_args()


def a_python(text: str) -> Path:
    """An interpreter that runs."""
    if environments.version_of(Path(text)) is None:
        raise argparse.ArgumentTypeError(f"{text} is no Python that runs")
    return Path(text)


def build(source: Path, out: Path) -> str:
    """The names of what is built."""
    files = built.build(source, out)
    return f"{files.sdist.name}, {files.wheel.name}"


def check_files(report: Report, files: Built, source: Path, place: Path) -> None:
    """Check the files without installing them."""
    metadata = listing.metadata_of(files.wheel)
    version, page = str(metadata["Version"]), str(metadata.get_payload())
    report.check("the checkout builds the same wheel", same_wheel, files, source, place / "wheel")
    report.check("the version stands in one place", listing.version_in_one_place, source, version)
    report.check("metadata and README can be shown", listing.renders, files)
    report.check("links of the README", listing.links_lead_somewhere, page, source)
    report.check("licences that stand out are in docs/evidence/licences.md", licences.are_named, source)


def same_wheel(files: Built, source: Path, out: Path) -> str:
    """How many files are in both."""
    return built.same_contents(files.wheel, built.build_wheel(source, out))


def check_installs(report: Report, files: Built, place: Path) -> None:
    """Each by itself in an empty environment."""
    for file in (files.wheel, files.sdist):
        report.check(f"{file.name} without extras", installs, file, place / f"plain{file.suffix}")


def installs(file: Path, folder: Path) -> str:
    """The version that the package and its metadata say, where nothing optional is installed."""
    environment = make_environment(Path(sys.executable), folder)
    environment.install(file)
    environment.call("-c", f"import importlib.util as u; assert not [n for n in {NEEDLESS} if u.find_spec(n)]")
    code = "import typedbatch, importlib.metadata as m; print(typedbatch.__version__, m.version('typedbatch'))"
    said, written = environment.call("-c", code).split()
    if said != written:
        raise Wrong(f"typedbatch.__version__ is {said}, and the metadata says {written}")
    return f"import typedbatch works, it is {said}"


def check_pythons(report: Report, files: Built, pythons: dict[str, Path], source: Path, place: Path) -> None:
    """The smoke program on each Python, with the newest versions and with the lowest."""
    for version, python in pythons.items():
        for limits in (source / ".ci" / "constraints.txt", source / ".ci" / "lowest.txt"):
            folder = place / f"{limits.stem}{version}"
            report.check(f"Python {version} with {limits.name}", works, python, folder, files.wheel, limits)
    for version in SUPPORTED:
        if version not in pythons:
            report.note(f"Python {version} is not here, and was not tried; --python PATH names one")


def works(python: Path, folder: Path, wheel: Path, limits: Path) -> str:
    """The versions with which the smoke program ran."""
    environment = make_environment(python, folder)
    environment.install(f"{wheel}[cli]", constraints=limits)
    return environment.call(SMOKE).strip()


def check_types(report: Report, files: Built, source: Path, place: Path) -> None:
    """Right and wrong lines under six checkers, which are installed beside the wheel."""
    environment = Environment(place / "checkers")
    if report.check("six type checkers beside the wheel", checkers, environment, files.wheel, source):
        for name, checker, program in typed.checks():
            folder = place / name.replace(" ", "_")
            report.check(f"{name} sees py.typed", typed.reports_the_wrong_line, checker, program, environment, folder)


def checkers(environment: Environment, wheel: Path, source: Path) -> str:
    """Install the wheel and the type checkers, and return the names of the checkers."""
    make_environment(Path(sys.executable), environment.folder)
    environment.install(wheel, *typed.PACKAGES, constraints=source / ".ci" / "constraints.txt")
    return ", ".join(typed.SEEN)


if __name__ == "__main__":
    sys.exit(main())
