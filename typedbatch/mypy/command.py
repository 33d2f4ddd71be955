"""mypy's command, to which a project gives no module but the plugins that its settings name.

It is run as ``python -P -m typedbatch.mypy.command ROOT HIDDEN OPTIONS``: the folder of the project, a list in JSON of
the files that mypy must not see, and what mypy's own command takes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from io import StringIO
from types import ModuleType

from mypy.build import build
from mypy.config_parser import parse_config_file
from mypy.errors import CompileError
from mypy.main import main as mypy_main
from mypy.main import process_options
from mypy.options import Options

from typedbatch.mypy.overlay import Overlay

RECURSION = 2**14
"""As deep as mypy's own command goes."""


@dataclass(frozen=True)
class _Plugins:
    root: str
    names: frozenset[str]

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [self.root]) if name in self.names else None


def allow_plugins(names: Iterable[str], root: str) -> None:
    """Have Python import plugins by their dotted names from a folder, and nothing else that is there."""
    sys.meta_path.append(_Plugins(root, frozenset(name.partition(":")[0].partition(".")[0] for name in names)))


def main() -> None:
    """Run mypy's command, which prints a summary in its last line if it could check the program."""
    root, hidden = sys.argv[1], json.loads(sys.argv[2])
    del sys.argv[1:3]
    config = next((one.partition("=")[2] for one in sys.argv if one.startswith("--config-file=")), None)
    options = Options()
    parse_config_file(options, lambda: None, config, StringIO(), StringIO())
    allow_plugins(options.plugins, root)
    if not hidden:
        mypy_main()
        return
    sys.setrecursionlimit(RECURSION)
    overlay = Overlay(hidden)
    sources, options = process_options(sys.argv[1:], stdout=sys.stdout, stderr=sys.stderr, fscache=overlay)
    try:
        found = build([one for one in sources if not overlay.hides(one.path)], options, fscache=overlay)
    except CompileError as error:
        print(*error.messages, sep="\n")
        sys.exit(2)
    print(*found.errors, f"Success: mypy has checked {len(sources)} source files", sep="\n")


if __name__ == "__main__":
    main()
