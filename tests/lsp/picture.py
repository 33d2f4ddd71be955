"""The picture of an editor on the page of the language server, drawn from the answers of a real server."""

from __future__ import annotations

import tempfile
from html import escape
from pathlib import Path

from tests.lsp.client import Editor

PROGRAM = """\
def collect(flag: bool, obs: Float[Tensor, "N 4"]) -> Batch:
    batch = Batch(obs=obs, act=torch.zeros(8, dtype=torch.int64))
    if flag:
        batch.adv = batch.obs.mean(-1)
    shifted = batch.obs[:, :-1]
    part = batch[:4]
    print(part.atc)
    batch.
"""
_IMPORTS = "import torch\nfrom jaxtyping import Float\nfrom torch import Tensor\nfrom typedbatch import Batch\n\n\n"
_LETTER, _LINE, _LEFT, _TOP, _WIDTH = 7.9, 24, 24, 34, 760
_STYLE = """
    .card { fill: #ffffff; stroke: #d0d7de } .popup { fill: #f6f8fa; stroke: #d0d7de }
    text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #1f2328; white-space: pre }
    .hint { fill: #8c959f; font-style: italic } .wrong { fill: none; stroke: #cf222e } .message { fill: #cf222e }
    .note { fill: #57606a } .kind { fill: #1d4ed8 }
    @media (prefers-color-scheme: dark) {
      .card { fill: #161b22; stroke: #30363d } .popup { fill: #21262d; stroke: #30363d } text { fill: #f0f3f6 }
      .hint { fill: #6e7681 } .wrong { stroke: #ff7b72 } .message { fill: #ff7b72 } .note { fill: #9aa4b0 }
      .kind { fill: #93c5fd }
    }"""


def picture() -> str:
    """Return the picture as SVG: a program with its hints, what is wrong in it, a completion, and a hover."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        editor = Editor(folder)
        (wrong,) = editor.open("train.py", _IMPORTS + PROGRAM)
        hints = {int(one.partition(":")[0]): one.partition(":")[2] for one in editor.hints("train.py")}
        hover = editor.hover("train.py", "shifted = bat|ch").split("```")[1].removeprefix("python\n").splitlines()
        offers = editor.complete("train.py", "    batch.|\n")
        editor.stop()
    skipped = _IMPORTS.count("\n")
    lines = PROGRAM.splitlines()
    out = [_text(at, 0, line) for at, line in enumerate(lines)]
    for line, hint in hints.items():
        at = line - skipped - 1
        name = lines[at].partition(" = ")[0]
        out[at] = f"{_text(at, 0, name)}{_text(at, len(name), ':' + hint, 'hint')}" + _text(
            at, len(name) + len(hint) + 1, lines[at][len(name) :]
        )
    start, end = wrong["range"]["start"], wrong["range"]["end"]
    at = start["line"] - skipped
    out.append(_wave(at, start["character"], end["character"]))
    out.append(_text(at, end["character"] + 4, wrong["message"], "message"))
    out += _popup(len(lines) + 0.4, 9, [tuple(one["detail"].split(": ")) for one in offers])
    below = len(lines) + len(offers) + 1.6
    out.append(_text(below, 0, "The mouse is over batch, in the line of shifted:", "note"))
    out += _popup(below + 1.2, 2, [(line, "") for line in hover if line])
    height = _TOP + (below + len(hover) + 1.4) * _LINE
    card = f'<rect class="card" x="1" y="1" width="{_WIDTH - 2}" height="{height - 2:.0f}" rx="8"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height:.0f}" role="img">'
    title = "<title>A program in an editor, with what the language server shows</title>"
    return "\n".join([head, title, f"<style>{_STYLE}\n</style>", card, *out, "</svg>"]) + "\n"


def _x(column: float) -> float:
    return _LEFT + column * _LETTER


def _y(line: float) -> float:
    return _TOP + line * _LINE


def _text(line: float, column: float, text: str, kind: str = "") -> str:
    style = f' class="{kind}"' if kind else ""
    return f'<text{style} x="{_x(column):.1f}" y="{_y(line):.1f}" xml:space="preserve">{escape(text)}</text>'


def _wave(line: float, start: int, end: int) -> str:
    steps = range(int((_x(end) - _x(start)) / 3))
    points = " ".join(f"{_x(start) + 3 * step:.1f},{_y(line) + 5 + 2 * (step % 2):.1f}" for step in steps)
    return f'<polyline class="wrong" points="{points}"/>'


def _popup(line: float, column: float, rows: list[tuple[str, str]]) -> list[str]:
    left = max(len(name) for name, _ in rows) + 3
    width = (left + max(len(text) for _, text in rows) + 2) * _LETTER
    box = (
        f'<rect class="popup" x="{_x(column) - 8:.1f}" y="{_y(line) - 17:.1f}" width="{width + 16:.1f}" '
        f'height="{len(rows) * _LINE + 8}" rx="4"/>'
    )
    out = [box]
    for at, (name, text) in enumerate(rows):
        out.append(_text(line + at, column, name))
        out += [_text(line + at, column + left, text, "kind")] if text else []
    return out
