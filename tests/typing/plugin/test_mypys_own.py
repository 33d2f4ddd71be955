"""Reports of mypy with the plugin, which are all those without it, word for word."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType

import mypy.plugins
import pytest
from mypy.build import BuildSource, build
from mypy.options import Options
from mypy.plugins.default import DefaultPlugin

from tests.typing.caches import MYPY, PLUGIN, warm
from tests.typing.plugin.runs import CONFIG, Files, Report, check, fill
from typedbatch.mypy.plugin import TypedBatchPlugin

WRONG = """
import ctypes
import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial, singledispatch, total_ordering
from typing import TypedDict

import attr
import attrs


@dataclass
class Config:
    lr: float


@attrs.define
class Step:
    reward: float


@total_ordering
class Rank:
    pass


class Kind(enum.Enum):
    NUMPY = 1


class Row(TypedDict, total=False):
    act: int


@singledispatch
def act(obs: object, size: int) -> int:
    return size


@act.register
def _(obs: Kind, size: str) -> int:
    return 0


array = (ctypes.c_int * 2)(1, 2, "x")
row: Row = {}
Config("a")
Step("a")
replace(Config(1.0), lr="a")
attr.evolve(Step(1.0), reward="a")
attrs.evolve(Step(1.0), rewrad=1.0)
attr.assoc(Step(1.0), reward="a")
attrs.fields(Config)
act(1)
act(1, "a")
act.register(1)
partial(Config, "a")
partial(Config)(lr="a")
row.get("act", 1) + "a"
row.setdefault("act", "a")
row.pop("obs")
row.update({"act": "a"})
row |= {"act": "a"}
del row["obs"]
array["a"] = 1
array[0] = "a"
array[0] + "a"
[item + "a" for item in array]
array.value + 1
Kind.NUMPY.name + 1
Kind.NUMPY.value + "a"
-(1) + "a"
2**2 + "a"
2**-2 + "a"
((1,) * 2) + 1
len(1)
enum.member(1) + "a"
"""
PACKAGES = (
    "tianshou.data", "tianshou.algorithm", "gymnasium", "torch.optim", "torch.distributions", "torch.utils.data",
)  # fmt: skip
"""Public code, of which tianshou has classes of the names of ours. Each package takes mypy ten seconds or more."""
AFTER = """
from mypy.plugin import Plugin


def hook(ctx):
    ctx.api.fail("seen", ctx.context)
    return ctx.default_signature if hasattr(ctx, "default_signature") else ctx.default_return_type


class Other(Plugin):
    def get_function_signature_hook(self, fullname):
        return hook if fullname in ("numpy._core.numeric.ones_like", "user.need", "user.plain") else None

    def get_method_signature_hook(self, fullname):
        return hook if fullname in ("user.C.need", "user.C.plain") else None

    def get_function_hook(self, fullname):
        return hook if fullname in ("typedbatch.batch.Batch", "numpy._core.numeric.zeros_like") else None


def plugin(version):
    return Other
"""
USER = """
import numpy as np
from typedbatch import Batch, ObsBatchProtocol

def need(b: ObsBatchProtocol) -> None: ...
def plain(b: int) -> None: ...
class C:
    def need(self, b: ObsBatchProtocol) -> None: ...
    def plain(self, b: int) -> None: ...

b = Batch(obs=np.zeros(3), info=Batch())
need(b)
plain(1)
C().need(b)
C().plain(1)
np.ones_like(np.zeros(3))
np.zeros_like(np.zeros(3))
"""


def hooks_of_mypy() -> list[tuple[str, str]]:
    """Return each method of mypy's own plugin that finds a hook, with each name that it has one for."""
    folder = Path(mypy.plugins.__file__ or "").parent
    names: set[str] = set()
    for path in folder.glob("*.py"):
        constants = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)]
        names |= {node.value for node in constants if isinstance(node.value, str)}
        names |= names_in(import_module(f"mypy.plugins.{path.stem}"))
    plugin = DefaultPlugin(Options())
    kinds = [kind for kind in dir(plugin) if kind.startswith("get_") and "_hook" in kind]
    return [(kind, name) for kind in kinds for name in sorted(names) if getattr(plugin, kind)(name) is not None]


def names_in(module: ModuleType) -> set[str]:
    """Return the texts in the constants of a module."""
    values = [value for value in vars(module).values() if isinstance(value, (set, frozenset, tuple, list))]
    return {text for value in values for text in value if isinstance(text, str)}


def test_names_that_mypys_own_plugin_has_hooks_for_are_left_to_it(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG, "utf-8")
    options = Options()
    options.cache_dir, options.incremental = str(tmp_path / "cache"), False
    built = build([BuildSource(str(tmp_path / "wrong.py"), "wrong")], options)
    ours = TypedBatchPlugin(options)
    ours.set_modules(built.files)
    hooks = hooks_of_mypy()
    assert len(hooks) > 60
    assert [hook for hook in hooks if getattr(ours, hook[0])(hook[1]) is not None] == []


def test_uses_that_mypys_own_plugin_reports(kept: Path, tmp_path: Path) -> None:
    without, reported = both(kept, tmp_path, {"wrong.py": WRONG})
    assert reported == without
    lines = {int(line.split(":")[1]) for line in reported.lines if ": error: " in line}
    first = WRONG[: WRONG.index("array = ")].count("\n") + 1
    right = first + 1  # `row: Row = {}`
    assert lines >= {*range(first, WRONG.count("\n") + 1)} - {right}


def test_plugins_that_are_listed_after_it_are_asked(tmp_path: Path, without_torch: Path) -> None:
    config = CONFIG.replace("plugins = typedbatch.mypy", "plugins = typedbatch.mypy, after.py")
    fill(tmp_path / "with", {"mypy.ini": config, "after.py": AFTER, "user.py": USER})
    python = f"--python-executable={without_torch}"  # with other plugins mypy uses nothing of its cache
    reported = check(tmp_path / "with", tmp_path / "cache", python, names=["user.py"])
    seen = {int(line.split(":")[1]) for line in reported.lines if line.endswith("seen  [misc]")}
    calls = {number for number, line in enumerate(USER.splitlines(), 1) if line[:1].isalpha() and "(" in line}
    assert seen == calls - {number for number, line in enumerate(USER.splitlines(), 1) if line[:4] in ("def ", "clas")}


@pytest.mark.parametrize("packages", [PACKAGES[:1], pytest.param(PACKAGES, marks=pytest.mark.release)])
def test_public_code_is_reported_word_for_word(packages: tuple[str, ...], kept: Path, tmp_path: Path) -> None:
    without, reported = both(kept, tmp_path, {}, names=[part for package in packages for part in ("-p", package)])
    for package in packages:
        assert sum(f"/{package.replace('.', '/')}/" in line for line in without.lines) > 5
    added = Counter(reported.lines) - Counter(without.lines)
    assert Counter(without.lines) - Counter(reported.lines) == Counter()
    assert [line for line in added if "  [batch-" not in line] == []


def both(kept: Path, folder: Path, files: Files, names: Iterable[str] = ()) -> tuple[Report, Report]:
    """Return what mypy reports of files or names without the plugin, and with it."""
    reports = []
    for name, checker in (("without", MYPY), ("with", PLUGIN)):
        fill(folder / name, {**checker.settings, **files})
        reports.append(check(folder / name, warm(kept, checker, folder / f"{name}-cache"), names=names))
    return reports[0], reports[1]
