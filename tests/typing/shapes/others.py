"""``python -m tests.typing.shapes.others``: the table of docs/shapes.md, what others find in the same programs."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import linecache
import subprocess
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from jaxtyping import install_import_hook

from tests.typing.checkers import CHECKERS, Checker, Diagnostic, call, command_of, with_plugin
from tests.typing.shapes.rivals import RIVALS, ROOT, Lines
from tests.typing.shapes.test_programs import HERE, marked

STATIC = ("mypy", "pyright", "pyrefly", "ty", "zuban")
RIGHT, WRONG = sorted((HERE / "right").glob("*.py")), sorted((HERE / "wrong").glob("*.py"))


def main() -> None:
    """Print a row for each."""
    subprocess.run(["make", ".venv/.rivals"], cwd=ROOT, check=True, stdout=sys.stderr)
    print(f"| checker | of {len(WRONG)} mistakes, finds | of {len(RIGHT)} right programs, reports |\n|---|---|---|")
    _row("mypy with `typedbatch.mypy`", str, _checked_by_plugin)
    for rival in RIVALS:
        _row(rival.name, rival.adapted, rival.run)
    for name in STATIC:
        _row(name, str, lambda place, name=name: _checked(CHECKERS[name], place), counts_right=False)
    raised = sum(map(_raises, WRONG))
    print(f"| jaxtyping and beartype, when the line runs | {raised} | {sum(map(_raises, RIGHT))} |")


def _row(name: str, adapted: Callable[[str], str], run: Callable[[Path], Lines], *, counts_right: bool = True) -> None:
    """Print what a checker finds; the settings of other checkers report more than shapes in what is right."""
    wrong = _reported(WRONG, adapted, run)
    found = sum(bool(wrong.get(path.name, set()) & marked(path.read_text(encoding="utf-8"))) for path in WRONG)
    right = sum(map(bool, _reported(RIGHT, adapted, run).values())) if counts_right else "-"
    print(f"| {name} | {found} | {right} |", flush=True)


def _reported(paths: list[Path], adapted: Callable[[str], str], run: Callable[[Path], Lines]) -> Lines:
    with tempfile.TemporaryDirectory() as folder:
        for path in paths:
            (Path(folder) / path.name).write_text(adapted(path.read_text(encoding="utf-8")), encoding="utf-8")
        return run(Path(folder))


def _checked(checker: Checker, place: Path) -> Lines:
    programs = sorted(path.name for path in place.glob("*.py"))
    for file, text in checker.settings.items():
        (place / file).write_text(text.replace("strict = True\n", ""), encoding="utf-8")
    done = call(checker, [*command_of(checker, place / "cache"), *programs], place)
    lines: dict[str, set[int]] = defaultdict(set)
    for report in checker.read(done.stdout):
        lines[Path(report.file).name].add(report.line)
    return lines


def _checked_by_plugin(place: Path) -> Lines:
    """Return what the plugin reports of shapes, without what mypy reports of types."""
    checker = with_plugin(CHECKERS["mypy"])
    read = replace(checker, read=_shapes_in)
    return _checked(read, place)


def _shapes_in(output: str) -> list[Diagnostic]:
    found = map(json.loads, filter(lambda line: line.startswith("{"), output.splitlines()))
    codes = ("batch-shape", "batch-dtype")
    return [Diagnostic(one["file"], one["line"], one["message"]) for one in found if one["code"] in codes]


def _raises(path: Path) -> bool:
    """Does a check of jaxtyping's fail, with each function checked; what numpy or torch raise is not its find."""
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    sys.modules.pop(path.stem, None)  # the right program and the wrong one have one name
    try:
        with install_import_hook(path.stem, "beartype.beartype"), contextlib.redirect_stdout(io.StringIO()):
            importlib.import_module(path.stem).main()
    except Exception as error:  # noqa: BLE001  # whatever a wrong program raises
        linecache.clearcache()
        shown = "".join(traceback.format_exception(error))
        return "TypeCheckError" in shown or "beartype.roar" in shown
    finally:
        sys.path.pop(0)
    return False


if __name__ == "__main__":
    main()
