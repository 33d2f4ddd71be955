"""The pictures of the pages, made from declarations, figures and the library itself: ``make pictures``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from math import log2
from pathlib import Path

import numpy as np

import typedbatch
from tests.lsp.picture import picture
from typedbatch import Batch, BatchWithAdvantages, BatchWithReturns, LogpOldBatch, ObsBatch, RolloutBatch
from typedbatch.posttraining import Prompts, Ready, Rollouts, Scored

DOCS = Path(typedbatch.__file__).parents[1] / "docs"
PICTURES = DOCS / "pictures"
STAGES = {
    "stages": {
        ObsBatch: "the environment", RolloutBatch: "the collector", BatchWithReturns: "compute_returns",
        BatchWithAdvantages: "a critic, and GAE", LogpOldBatch: "the policy that collected",
    },
    "stages-posttraining": {
        Prompts: "the data loader",
        Rollouts: "sampling",
        Scored: "a reward model, or a verifier",
        Ready: "log-probabilities, and advantages",
    },
}  # fmt: skip
"""Records in the order in which a pipeline makes them, and what makes each."""
SHOWN = (
    "construct", "integer index", "slice", "split, shuffled", "stack 16", "cat 16", "to_torch", "copy", "equality",
)  # fmt: skip
PEERS = ("typedbatch", "tianshou", "tensordict", "optree")
STYLE = """
    .card { fill: #ffffff; stroke: #d0d7de } .chip { fill: #dbeafe } .optional { fill: none; stroke: #93b4e8 }
    text { font: 13px ui-monospace, Menlo, Consolas, monospace; fill: #57606a }
    .name { font-weight: 600; fill: #1f2328 } .field { fill: #1d4ed8 } .line { stroke: #b6bec8 }
    .typedbatch { fill: #2563eb } .tianshou { fill: #b45309 } .tensordict { fill: #6b7280 } .optree { fill: #a8a29e }
    @media (prefers-color-scheme: dark) {
      .card { fill: #161b22; stroke: #30363d } .chip { fill: #172f5f } .optional { fill: none; stroke: #3b5998 }
      text { fill: #9aa4b0 } .name { fill: #f0f3f6 } .field { fill: #93c5fd } .line { stroke: #4b5563 }
      .typedbatch { fill: #60a5fa } .tianshou { fill: #f59e0b } .tensordict { fill: #9ca3af } .optree { fill: #78716c }
    }"""
WIDTH, LETTER, LINE = 480, 7.9, 24


def main() -> None:
    """Write all of them."""
    for name, text in pictures().items():
        (PICTURES / name).write_text(text, encoding="utf-8")
    (PICTURES / "live.svg").write_text(picture(), encoding="utf-8")


def pictures() -> dict[str, str]:
    """The text of each picture, by the name of its file."""
    drawn = {f"{name}.svg": stages(makers) for name, makers in STAGES.items()}
    performance = (DOCS / "evidence" / "performance.md").read_text(encoding="utf-8")
    return {**drawn, "performance.svg": bars(performance), "notebook.html": notebook()}


def stages(makers: dict[type[Batch], str]) -> str:
    """Stages from top to bottom, and the fields that each adds to those above it; an empty box may be left out."""
    parts, known, y = [], set[str](), 22
    for record, maker in makers.items():
        declared = record.__record_fields__
        new = [name for name in declared if name not in known]
        known |= declared.keys()
        parts += [_text(34, y + 10, record.__name__, "name"), _text(WIDTH - 20, y + 10, maker, end=True)]
        parts.append(f'<circle cx="20" cy="{y + 6}" r="4" class="typedbatch"/>')
        end = _chips(parts, {name: hasattr(record, name) for name in new}, y + 22)
        if record is not [*makers][-1]:
            parts.append(f'<path d="M20 {y + 14} V{end + 16}" class="line"/>')
        y = end + 20
    names = ", then ".join(record.__name__ for record in makers)
    return _svg(y - 6, parts, f"The stages of a pipeline, and the fields that each adds: {names}")


def _chips(parts: list[str], names: dict[str, bool], y: int) -> int:
    """Names, and whether they are optional, in boxes, in as many lines as they need; where they end."""
    x = 34.0
    for name, optional in names.items():
        style = "optional" if optional else "chip"
        width = LETTER * len(name) + 14
        if x + width > WIDTH - 20:
            x, y = 34.0, y + LINE + 4
        parts.append(f'<rect x="{x:.0f}" y="{y}" width="{width:.0f}" height="{LINE - 2}" rx="5" class="{style}"/>')
        parts.append(_text(x + 7, y + 15, name, "field"))
        x += width + 6
    return y + LINE


def bars(page: str) -> str:
    """Ratios to the floor as bars, logarithmic, from the first table of the performance page."""
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in _first_table(page)]
    columns = {name: place for place, name in enumerate(table[0])}
    rows = {row[0]: row for row in table[2:] if row[0] in SHOWN}
    scale = (WIDTH - 200) / log2(512)
    parts = [f'<path d="M140 44 V{52 + len(rows) * 54}" class="line"/>']
    for place, peer in enumerate(PEERS):
        parts += [f'<rect x="{20 + place * 112}" y="14" width="10" height="10" class="{peer}"/>']
        parts += [_text(36 + place * 112, 24, peer)]
    for row, operation in enumerate(name for name in SHOWN if name in rows):
        top = 52 + row * 54
        parts.append(_text(130, top + 26, operation, "name", end=True))
        for place, peer in enumerate(PEERS):
            ratio = _ratio(rows[operation][columns[peer]])
            if ratio is not None:
                y, long = top + place * 12, max(log2(max(ratio, 1)) * scale, 2)
                parts.append(f'<rect x="140" y="{y}" width="{long:.0f}" height="9" class="{peer}"/>')
                parts.append(_text(146 + long, y + 9, f"{ratio:g}"))
    return _svg(60 + len(rows) * 54, parts, "Time of operations as a ratio to a loop over a dict, logarithmic")


def _first_table(page: str) -> Iterator[str]:
    begun = False
    for line in page.splitlines():
        if line.startswith("|"):
            begun = True
            yield line
        elif begun:
            return


def _ratio(cell: str) -> float | None:
    found = re.search(r"\d+(\.\d+)?", cell)
    return float(found[0]) if found else None


def notebook() -> str:
    """Return the HTML that a notebook shows for a batch."""
    batch = Batch(
        obs=Batch(camera=np.zeros((32, 3, 16, 16), np.uint8), speed=np.linspace(0, 1, 32, dtype=np.float32)),
        act=np.arange(32) % 3,
        rew=np.ones(32),
        terminated=np.zeros(32, bool),
    )
    return batch._repr_html_() + "\n"


def _text(x: float, y: float, text: str, style: str = "", *, end: bool = False) -> str:
    anchor = ' text-anchor="end"' if end else ""
    style = f' class="{style}"' if style else ""
    return f'<text x="{x:.0f}" y="{y:.0f}"{style}{anchor}>{escape(text)}</text>'


def _svg(height: float, parts: list[str], title: str) -> str:
    frame = f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1:.0f}" rx="8" class="card"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" role="img" width="{WIDTH}">'
    inside = "\n".join(f"  {part}" for part in (frame, *parts))
    return f"{head}\n  <title>{escape(title)}</title>\n  <style>{STYLE}\n  </style>\n{inside}\n</svg>\n"


if __name__ == "__main__":
    main()
