"""``python -m tests.typing.shapes.others``: the table of docs/shapes.md, what others find in the same programs."""

from __future__ import annotations

import importlib
import linecache
import sys
import tempfile
import traceback
from collections import defaultdict
from pathlib import Path

from jaxtyping import install_import_hook

from tests.typing.checkers import CHECKERS, call, command_of, with_plugin
from tests.typing.shapes.test_programs import HERE, marked

STATIC = ("mypy", "pyright", "pyrefly", "ty", "zuban")


def main() -> None:
    """Print a row for each."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "wrong").mkdir()
        for path in (HERE / "wrong").glob("*.py"):
            (place / "wrong" / path.name).write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
        print(f"| checker | of {len(list((place / 'wrong').iterdir()))} mistakes, finds |\n|---|---|")
        rows = {
            "mypy with `typedbatch.mypy`": with_plugin(CHECKERS["mypy"]),
            **{name: CHECKERS[name] for name in STATIC},
        }
        for name, checker in rows.items():
            for file, text in checker.settings.items():
                (place / file).write_text(text.replace("strict = True\n", ""), encoding="utf-8")
            programs = [str(path.relative_to(place)) for path in sorted(place.glob("*/*.py"))]
            done = call(checker, [*command_of(checker, place / "cache"), *programs], place)
            lines: dict[str, set[int]] = defaultdict(set)
            for report in checker.read(done.stdout):
                lines[Path(report.file).name].add(report.line)
            print(f"| {name} | {_found(place, lines)} |")
        print(f"| jaxtyping and beartype, when the line runs | {sum(map(_raises, (place / 'wrong').glob('*.py')))} |")


def _found(place: Path, lines: dict[str, set[int]]) -> int:
    return sum(bool(lines[path.name] & set(marked(path.read_text()))) for path in (place / "wrong").glob("*.py"))


def _raises(path: Path) -> bool:
    """Does a check of jaxtyping's fail, with each function checked; what numpy or torch raise is not its find."""
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    try:
        with install_import_hook(path.stem, "beartype.beartype"):
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
