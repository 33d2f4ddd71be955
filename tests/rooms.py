"""The rooms of the package, and which imports which. ``python -m tests.rooms`` writes the table in docs/design.md anew.

A room is a module or a folder right inside the package.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from textwrap import fill

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "typedbatch"
PAGE = ROOT / "docs" / "design.md"
BEGIN, END = "<!-- made by: make design-docs -->\n", "<!-- until here -->\n"

ORDER = [
    ["_checkers", "_markers", "_names", "_report", "_typing"], ["errors"], ["_core"],
    ["rules", "_ops", "distributions"], ["conversion", "pytree", "sequences"], ["batch"],
    ["_space_values", "protocols", "episodes", "ragged"], ["records"], ["sample_batches"], ["naming"],
    ["schema"], ["_program"], ["mypy"], ["_validation", "infer", "json_schema"], ["files", "rows"], ["buffers"],
    ["audit"], ["training", "posttraining"], ["bridges", "cli"], ["_lsp", "testing"], ["__init__"], ["pytest_plugin"],
]  # fmt: skip
"""A room imports only from the rows above its own."""


@cache
def modules() -> dict[str, Path]:
    """Every module, by its name within the package: ``_ops.indexing``; a folder is its ``__init__``."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        *folders, name = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(folders if name == "__init__" and folders else [*folders, name])] = path
    return found


def room(module: str) -> str:
    """The room that a module is in."""
    return module.partition(".")[0]


@cache
def imports_of(path: Path) -> set[str]:
    """The modules of the package that a file imports at its top level."""
    known, found = modules(), set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == "typedbatch":
            inside = node.module.partition(".")[2]
            for alias in node.names:
                full = f"{inside}.{alias.name}".lstrip(".")
                found.add(full if full in known else inside or "__init__")
    return found


def levels(folder: str) -> list[list[str]]:
    """The modules of a folder, those first that need none of the others.

    Raises:
        ValueError: some import each other in a circle.
    """
    inside = {name: path for name, path in modules().items() if name.rpartition(".")[0] == folder}
    needs = {name: {one for one in imports_of(path) if one in inside} - {name} for name, path in inside.items()}
    rows: list[list[str]] = []
    while needs:
        free = sorted(name for name, needed in needs.items() if not needed & needs.keys())
        if not free:
            raise ValueError(f"these import each other: {', '.join(sorted(needs))}")
        rows.append([name.rpartition(".")[2] for name in free])
        needs = {name: needed for name, needed in needs.items() if name not in free}
    return rows


def folders() -> list[str]:
    """Every folder of modules."""
    return sorted(name for name, path in modules().items() if path.name == "__init__.py" and name != "__init__")


def table() -> str:
    """The rooms in their order, and the modules of each folder in theirs."""
    known, sizes = modules(), sizes_of_rooms()
    lines = ["```", f"{'':17}modules   lines"]
    for row in ORDER:
        lines += [f"{_shown(name, known[name]):17}{_columns(sizes[name])}  {_summary(known[name])}" for name in row]
    lines += [f"{'all':17}{_columns(_sum(sizes.values()))}", "```", ""]
    tests = sizes_of_tests()
    lines += ["The tests, by what they test:", "", "```", f"{'':17}modules   lines"]
    lines += [f"{name:17}{_columns(size)}" for name, size in tests.items()]
    lines += [
        f"{'all':17}{_columns(_sum(tests.values()))}",
        "```",
        "",
        "Inside the folders, from what needs none of the others to what needs most:",
        "",
    ]
    for folder in folders():
        if any(rows := levels(folder)):
            listed = f"* `{folder.replace('.', '/')}`: {'; '.join(', '.join(row) for row in rows)}."
            lines.append(fill(listed, 120, subsequent_indent="  ", break_long_words=False))
    return "\n".join(lines) + "\n"


Size = tuple[int, int]
"""Numbers of modules and of lines."""


def sizes_of_rooms() -> dict[str, Size]:
    """Return the size of each room of the package."""
    return _sizes((room(name), path) for name, path in modules().items())


def largest() -> dict[str, Size]:
    """Return the size of each folder of the package, of the modules at its top together, and of all tests."""
    found = {name: size for name, size in sizes_of_rooms().items() if (PACKAGE / name).is_dir()}
    top = [size for name, size in sizes_of_rooms().items() if name not in found]
    return {**found, "top": _sum(top), "tests": _sum(sizes_of_tests().values())}


def sizes_of_tests() -> dict[str, Size]:
    """Return the size of each folder of tests; programs that are checked or run by tests count, too."""
    tests = ROOT / "tests"
    parts = ((path.relative_to(tests).parts, path) for path in sorted(tests.rglob("*.py")))
    return _sizes(("/".join(part[:-1][:2]) or "tests", path) for part, path in parts)


def _sizes(files: Iterable[tuple[str, Path]]) -> dict[str, Size]:
    found: dict[str, Size] = {}
    for name, path in files:
        found[name] = _sum([found.get(name, (0, 0)), (1, path.read_text(encoding="utf-8").count("\n"))])
    return found


def _sum(sizes: Iterable[Size]) -> Size:
    modules_of_all, lines = zip(*sizes, strict=True)
    return sum(modules_of_all), sum(lines)


def _columns(size: Size) -> str:
    """Return two columns; lines are rounded, so that not every change is one of the page."""
    return f"{size[0]:7}{-(-size[1] // 100) * 100:8,}"


def _shown(name: str, path: Path) -> str:
    return f"{name}/" if path.name == "__init__.py" and name != "__init__" else name


def _summary(path: Path) -> str:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    first = text.partition("\n\n")[0].replace("\n", " ").partition(". ")[0].rstrip(".")
    return re.sub(r":func:`(\w+)`|``", r"\1", first)


def page_with(made: str) -> str:
    """The page with this table."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + made + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page_with(table()), encoding="utf-8")
