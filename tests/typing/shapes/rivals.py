"""Other checkers of shapes, set up as their own pages say, over the same programs: what each program gets for them."""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
BIN = ROOT / ".venv" / "rivals" / "bin"
DECLARED = re.compile(r"""(?:Float|Int|Bool|Shaped|Integer|Num|Int64|Float32)\[[\w.]+,\s*(["'])(.*?)\1\]""")
Lines = Mapping[str, set[int]]
"""The lines that are reported, by the names of programs."""


@dataclass(frozen=True)
class Rival:
    """A checker of shapes.

    Attributes:
        name: As in the table.
        adapted: A program as its users would write it, with the same lines.
        run: Check the programs of a folder.
    """

    name: str
    adapted: Callable[[str], str]
    run: Callable[[Path], Lines]


def _names(text: str) -> list[str]:
    """Return the names of sizes in the declarations of a text, runs with their star."""
    found: dict[str, None] = {}
    for match in DECLARED.finditer(text):
        for word in match[2].replace("=", " ").split():
            found.update(dict.fromkeys([word] if word.startswith("*") else re.findall(r"[A-Za-z_]\w*", word)))
    return [name for name in found if name not in ("_", "...")]


def decorated(text: str) -> str:
    """Return a program with pyrefly's decorator above each function and class that declares shapes."""
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            continue
        inner = [one for one in node.body if isinstance(one, ast.AnnAssign)] if isinstance(node, ast.ClassDef) else []
        if isinstance(node, ast.FunctionDef):
            parts = [ast.unparse(node.args), ast.unparse(node.returns) if node.returns else ""]
        else:
            parts = [ast.unparse(one.annotation) for one in inner]
        names = _names("\n".join(parts))
        if names:
            at = node.lineno - 1
            head = lines[at]
            indent = head[: len(head) - len(head.lstrip())]
            lines[at] = f'{indent}@static_jaxtyping("{" ".join(names)}")\f{head}'
    at = next(
        (at for at, line in enumerate(lines) if line.startswith(("import ", "from ")) and "__future__" not in line), 0
    )
    lines[at] = f"from shape_extensions import static_jaxtyping\f{lines[at]}"
    return "\n".join(lines) + "\n"


def annotated(text: str) -> str:
    """Return a program with torchshapeflow's own way to declare the shape of a tensor."""

    def own(match: re.Match[str]) -> str:
        if "Tensor" not in match[0]:
            return match[0]
        words = [word if word.isdigit() else f'"{word}"' for word in match[2].split()]
        return f"Annotated[torch.Tensor, Shape({', '.join(words)})]"

    changed = DECLARED.sub(own, text)
    return changed.replace(
        "import torch\n", "import torch; from typing import Annotated; from torchshapeflow import Shape\n", 1
    )


def _called(*command: str, place: Path) -> str:
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=900, check=False).stdout


def _pyrefly(place: Path) -> Lines:
    before: dict[str, list[int]] = {}
    for path in place.glob("*.py"):
        lines = path.read_text(encoding="utf-8").split("\n")
        before[path.name] = [at for at, line in enumerate(lines, 1) for _ in line.split("\f")]
        path.write_text("\n".join(lines).replace("\f", "\n"), encoding="utf-8")
    (place / "pyrefly.toml").write_text('python-version = "3.12"\n', encoding="utf-8")
    command = (str(BIN / "pyrefly"), "check", f"--python-interpreter-path={BIN / 'python'}", "--output-format=json")
    found: dict[str, set[int]] = defaultdict(set)
    for report in json.loads(_called(*command, "--summary=none", place=place))["errors"]:
        name = Path(report["path"]).name
        found[name].add(before[name][report["line"] - 1])
    return found


def _torchtyc(place: Path) -> Lines:
    command = (str(BIN / "torchtyc"), "check", ".", "--format", "concise", "--severity", "error")
    found: dict[str, set[int]] = defaultdict(set)
    for match in re.finditer(
        r"^(\S+\.py):(\d+):\d+: error", _called(*command, "--python", str(BIN / "python"), place=place), re.M
    ):
        found[Path(match[1]).name].add(int(match[2]))
    return found


def _torchshapeflow(place: Path) -> Lines:
    found: dict[str, set[int]] = defaultdict(set)
    for file in json.loads(_called(str(BIN / "tsf"), "check", "--json", ".", place=place))["files"]:
        for report in file["diagnostics"]:
            if report["severity"] == "error":
                found[Path(report["path"]).name].add(report["line"])
    return found


RIVALS = (
    Rival("pyrefly, its stubs of torch, numpy and einops, and its decorator on each function", decorated, _pyrefly),
    Rival("torchtyc, which runs each function without data", str, _torchtyc),
    Rival("torchshapeflow, with its own declarations", annotated, _torchshapeflow),
)
