"""Growth of the mypy plugin's time with the length of a program: more methods, blocks of a function, and functions.

Each time is of a run of mypy with the plugin, less one of mypy alone on the same program. So it is the plugin's own,
with what mypy needs for types that it does not know without the plugin. Growth is that of the difference between one
length and the next, in which what every run takes is left out.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .timing import seconds_of_process

BAR = 2.3  # twice the program; 2 is linear, 4 quadratic
_HEAD = "from typing import Any\nimport numpy as np\nfrom typedbatch import Batch\nv = np.zeros(3)\n"


def _methods(count: int) -> str:
    methods = (
        f"    def m{i}(self, other: Batch) -> None:\n"
        f"        print(self.data.x{i}, self.batch.obs, other.rew{i})\n"
        "        self.batch.rew = other.act\n"
        for i in range(count)
    )
    start = "class Learner:\n    def __init__(self, data: Any) -> None:\n        self.data = data\n"
    return f"{_HEAD}{start}        self.batch = Batch(obs=v, act=v)\n{''.join(methods)}"


def _blocks(count: int) -> str:
    blocks = (
        f"    b{i} = Batch(obs=v, act=v)\n"
        f"    if k > {i}:\n        b{i}.rew = v\n    else:\n        b{i}.adv = v\n"
        f"    for t in b{i}.split(2):\n        print(t.obs)\n"
        f"    try:\n        b{i}.x = z.obs\n    except ValueError:\n        pass\n"
        for i in range(count)
    )
    return f"{_HEAD}def f(k: int, z: Batch) -> None:\n{''.join(blocks)}"


def _functions(count: int) -> str:
    functions = (
        f"def f{i}(b: Batch, z: np.ndarray) -> Batch:\n"
        "    c = Batch(obs=z, act=z, rew=b.rew)\n    x = c.obs + c.rew\n    y = c[:10].act * 2\n"
        "    c.returns = x + y.sum()\n    c.adv = c.returns - c.obs\n    for part in c.split(4):\n"
        "        print(part.adv)\n    d = Batch.cat([c, c])\n    print(d.returns, b.obs)\n    return d\n"
        for i in range(count)
    )
    return f"{_HEAD}{''.join(functions)}"


PROGRAMS: dict[str, tuple[Callable[[int], str], tuple[int, ...]]] = {
    "methods of a class": (_methods, (100, 200, 400, 800)),
    "blocks of a function": (_blocks, (50, 100, 200, 400)),
    "functions": (_functions, (250, 500, 1000, 2000)),
}


@dataclass(frozen=True)
class Growth:
    """Seconds of CPU time for programs of growing length.

    Attributes:
        kind: what there are more of.
        counts: how many there are.
        seconds: what the plugin takes.
        ratio: of a run with the plugin to one without, for the longest program.
    """

    kind: str
    counts: tuple[int, ...]
    seconds: tuple[float, ...]
    ratio: float

    @property
    def growth(self) -> float:
        """Ratio of the last difference in seconds to the one before it."""
        *_, before, middle, after = self.seconds
        return (after - middle) / (middle - before)


def measure_growth() -> list[Growth]:
    """Measure each kind of program, with mypy's cache of everything else."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "plugin.ini").write_text("[mypy]\nplugins = typedbatch.mypy\n", encoding="utf-8")
        (folder / "alone.ini").write_text("[mypy]\n", encoding="utf-8")
        start = {way: _seconds(folder, way, _HEAD) for way in ("plugin", "alone")}
        found = []
        for kind, (program, counts) in PROGRAMS.items():
            taken = {way: [_seconds(folder, way, program(count)) for count in counts] for way in start}
            own = (
                with_plugin - start["plugin"] - (alone - start["alone"])
                for with_plugin, alone in zip(taken["plugin"], taken["alone"], strict=True)
            )
            found.append(Growth(kind, counts, tuple(own), taken["plugin"][-1] / taken["alone"][-1]))
        return found


def _seconds(folder: Path, way: str, program: str) -> float:
    """Return the shortest of three runs, of which mypy keeps nothing of the program itself."""
    command = [sys.executable, "-m", "mypy", f"--config-file={way}.ini", f"--cache-dir={way}", "program.py"]
    taken = []
    for number in range(3):
        (folder / "program.py").write_text(f"{program}# {number}\n", encoding="utf-8")
        taken.append(seconds_of_process(command, folder))
    return min(taken)
