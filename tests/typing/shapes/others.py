"""``python -m tests.typing.shapes.others``: the table of docs/evidence/shapes.md, of what others find."""

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
from tests.typing.shapes.test_programs import TEXTS, marked

STATIC = ("mypy", "pyright", "pyrefly", "ty", "zuban")
RIGHT, WRONG = TEXTS["right"], TEXTS["wrong"]


def main() -> None:
    """Print a row for each."""
    subprocess.run(["make", ".venv/.rivals"], cwd=ROOT, check=True, stdout=sys.stderr)
    print(f"| checker | of {len(WRONG)} mistakes, finds | of {len(RIGHT)} right programs, reports |\n|---|---|---|")
    _row("mypy with `typedbatch.mypy`", str, _checked_by_plugin)
    for rival in RIVALS:
        _row(rival.name, rival.adapted, rival.run)
    for name in STATIC:
        _row(name, str, lambda place, name=name: _checked(CHECKERS[name], place), counts_right=False)
    raised = sum(_raises(name, text) for name, text in WRONG.items())
    reported = sum(_raises(name, text) for name, text in RIGHT.items())
    print(f"| jaxtyping and beartype, when the line runs | {raised} | {reported} |")


def _row(name: str, adapted: Callable[[str], str], run: Callable[[Path], Lines], *, counts_right: bool = True) -> None:
    """Print what a checker finds; the settings of other checkers report more than shapes in what is right."""
    wrong = _reported(WRONG, adapted, run)
    found = sum(bool(wrong.get(name, set()) & marked(text)) for name, text in WRONG.items())
    right = sum(map(bool, _reported(RIGHT, adapted, run).values())) if counts_right else "-"
    print(f"| {name} | {found} | {right} |", flush=True)


def _reported(texts: dict[str, str], adapted: Callable[[str], str], run: Callable[[Path], Lines]) -> Lines:
    with tempfile.TemporaryDirectory() as folder:
        for name, text in texts.items():
            (Path(folder) / name).write_text(adapted(text), encoding="utf-8")
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


def _raises(name: str, text: str) -> bool:
    """Return whether a check of jaxtyping's fails, with each function checked; an error of numpy or torch is none."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_text(text, encoding="utf-8")
        return _raises_in(path)


def _raises_in(path: Path) -> bool:
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    sys.modules.pop(path.stem, None)  # the right program and the wrong one have one name
    importlib.invalidate_caches()
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
