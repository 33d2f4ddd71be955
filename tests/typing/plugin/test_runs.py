"""The plugin is there in every way of running mypy, reports the same in each, and crashes in none.

What takes long, and seldom finds what the rest does not, runs under the hypothesis profile ``fuzz``.
"""

from __future__ import annotations

import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from operator import ne
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from hypothesis import settings

from tests.typing.caches import MYPY, PLUGIN, warm
from tests.typing.plugin import runs
from tests.typing.plugin.edits import states
from tests.typing.plugin.runs import CONFIG, WITHOUT, by_command, check, fill

slow = pytest.mark.skipif(settings.get_current_profile_name() != "fuzz", reason="make fuzz runs it")


def compare(kept: Path, place: Path, ways: dict[str, runs.Way], *options: str, every: int = 1) -> str:
    """Where reports differ from those of a cold run, after these steps of the project; empty when they do nowhere."""
    run_cold = runs.cold(place / "cold", warm(kept, PLUGIN, place / "base", *options), *options)
    steps = [(says, {"mypy.ini": CONFIG, **files}) for says, files in states()][::every]
    with ThreadPoolExecutor() as pool:
        expected, *found = pool.map(lambda way: [way(files) for _, files in steps], [run_cold, *ways.values()])
    assert all(map(ne, expected, expected[1:])), "a step changes no report, so a stale one would not be noticed"
    return "\n\n".join(
        f"{says}, {name}\n{difference}"
        for name, reports in zip(ways, found, strict=True)
        for (says, _), *pair in zip(steps, expected, reports, strict=True)
        if (difference := runs.differences(*pair))
    )


@pytest.mark.parametrize("every", [2, pytest.param(1, marks=pytest.mark.release)])
def test_reports_are_those_of_a_cold_run(every: int, kept: Path, tmp_path: Path) -> None:
    caches = [warm(kept, PLUGIN, tmp_path / name) for name in ("warm", "daemon")]
    with runs.in_daemon(tmp_path / "b", caches[1], "--use-fine-grained-cache") as daemon:
        ways = {"from its cache": by_command(tmp_path / "a", caches[0]), "in the daemon": daemon}
        different = compare(kept, tmp_path, ways, every=every)
    assert not different, different


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.release)])  # a step takes many seconds
def test_reports_are_those_of_a_cold_run_in_parallel(every: int, kept: Path, tmp_path: Path) -> None:
    way = by_command(tmp_path / "a", warm(kept, PLUGIN, tmp_path / "warm"), "--num-workers=2")
    different = compare(kept, tmp_path, {"in parallel": way}, every=every)
    assert not different, different


@slow
@pytest.mark.parametrize("option", ["--no-fixed-format-cache", "--no-sqlite-cache"])
def test_reports_do_not_depend_on_the_kind_of_cache(option: str, kept: Path, tmp_path: Path) -> None:
    cache = warm(kept, PLUGIN, tmp_path / "warm", option)
    different = compare(kept, tmp_path, {option: by_command(tmp_path / "a", cache, option)}, option)
    assert not different, different


@slow
def test_daemon_does_not_depend_on_a_cache(kept: Path, tmp_path: Path) -> None:
    with runs.in_daemon(tmp_path / "a", tmp_path / "none") as way:
        different = compare(kept, tmp_path, {"in the daemon": way})
    assert not different, different


def test_each_code_is_reported_in_the_project(kept: Path, tmp_path: Path) -> None:
    """Or else comparing its reports would show nothing about the plugin."""
    cache = warm(kept, PLUGIN, tmp_path / "cache")
    said = str(by_command(tmp_path / "a", cache)({"mypy.ini": CONFIG, **next(states())[1]}))
    codes = {"batch-field", "batch-maybe-field", "batch-extend", "batch-shape"}
    assert set(re.findall(r"\[(batch-.*)\]", said)) >= codes


@pytest.mark.parametrize("said", ["x.py:1: error: INTERNAL ERROR", "Traceback (most recent call last):", "usage: mypy"])
def test_a_crash_is_no_report(said: str) -> None:
    with pytest.raises(runs.PluginCrashedError):
        runs.report_of(CompletedProcess([], 2, "", said))


def test_a_report_that_is_lost_or_new_is_a_difference() -> None:
    one, other = runs.Report(False, ("a", "a", "b")), runs.Report(False, ("a", "c"))
    assert runs.differences(one, one) == ""
    assert runs.differences(one, other).splitlines() == ["lost: a", "lost: b", "new:  c"]
    assert runs.differences(runs.Report(True, ()), runs.Report(False, ())) == "passed: True, then False"


ODD = (Path(__file__).parent / "odd_uses.py").read_text(encoding="utf-8")
MODES = {
    "strict": "",
    "default": "check_untyped_defs = False\ndisallow_untyped_defs = False\ndisallow_incomplete_defs = False\n",
    "checked": "check_untyped_defs = True\ndisallow_untyped_defs = False\ndisallow_incomplete_defs = False\n",
    "redefined": "allow_redefinition = True\n",
    "redefined_as_before": "allow_redefinition_old = True\n",
}
"""Settings of mypy that change what it hands to the plugin. Sections of one file, so that all share one cache."""


def test_odd_uses_crash_nothing(kept: Path, tmp_path: Path) -> None:
    sections = "".join(f"[mypy-odd_{mode}]\n{text}" for mode, text in MODES.items())
    cache = warm(kept, PLUGIN, tmp_path / "cache")
    odd = {f"odd_{mode}.py": ODD for mode in MODES}
    said = str(by_command(tmp_path / "odd", cache)({"mypy.ini": CONFIG + sections, **odd}))
    reached = re.findall(r"^odd_(.*)\.py:\d+: note: Revealed type is .*the end", said, re.MULTILINE)
    assert sorted(reached) == sorted(MODES)


HOLDS_ITSELF = {
    "in loops": """
def f() -> None:
    b = Batch(a=1)
    for i in range(3):
        for j in range(3):
            b = Batch(inner=b)
            b.z = b
            while b.z:
                b.y = [b, {"x": b}]
                b = Batch([b, b.copy()])
""",
    "again and again": "def f() -> None:\n    b = Batch(a=1)\n" + "    b = Batch(x=b, y={'z': b})\n" * 40,
    "in many branches": """
def f(flags: list[bool]) -> None:
    b = Batch(a=1)
"""
    + "".join(f"    if flags[{i}]: b.f{i} = b\n    else: del b.f{i - 1}\n" for i in range(30)),
    "in a union that a loop widens": """
def f(c: object) -> None:
    b = Batch(a=1, b=None, c=Batch() if c else None)
    while b.c:
        b = b.c
        b.e = b
        del b.a
        b = b.zz or Batch(b)
    match b:
        case Batch(a=1, b=Batch(c=z)) as whole if whole.a: z.x
        case b: b.e
""",
    "in a chain": "b0 = Batch(a=1)\n" + "".join(f"b{i} = Batch(x=b{i - 1}, y=b{i - 1}.x)\n" for i in range(1, 40)),
}


def test_batches_that_hold_themselves_take_no_time(kept: Path, tmp_path: Path) -> None:
    files, sections = {}, ""
    for number, source in enumerate(HOLDS_ITSELF.values()):
        for mode in ("strict", "redefined"):
            if mode == "redefined" and "while b.z" in source:
                continue  # mypy joins the types of three loops in one another over and over, for half a minute
            files[f"{mode}_{number}.py"] = f"from typedbatch import Batch\n{source}"
            sections += f"[mypy-{mode}_{number}]\n{MODES[mode]}"
    fill(tmp_path / "a", {"mypy.ini": CONFIG + sections, **files})
    # otherwise each line doubles the time, and the limit in pyproject.toml ends the test
    check(tmp_path / "a", warm(kept, PLUGIN, tmp_path / "cache"))


PACKAGES = ("tianshou", "gymnasium", "tensordict")
REAL = """
[mypy]
plugins = typedbatch.mypy
check_untyped_defs = True
ignore_missing_imports = True
follow_imports = silent
"""


def copy_packages(place: Path) -> None:
    """The installed sources; where they are installed, mypy checks them less."""
    shutil.rmtree(place, ignore_errors=True)
    for name in PACKAGES:
        spec = find_spec(name)
        assert spec is not None
        for folder in spec.submodule_search_locations or ():
            shutil.copytree(folder, place / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    fill(place, {"mypy.ini": REAL})


def use_batches(place: Path) -> int:
    """Make every dict, TensorDict and Batch that is written out in these sources a Batch of this library.

    Returns:
        How many there are.
    """
    made = 0
    for path in place.rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        source = re.sub(r"^class (Batch|BatchProtocol)\b", r"class Old\1", source, flags=re.MULTILINE)
        source = re.sub(r"(?<![\w.])(dict|TensorDict)\(", "Batch(", source).replace("{}", "Batch()")
        path.write_text(f"from typedbatch import Batch, BatchProtocol\n{source}", encoding="utf-8")
        made += len(re.findall(r"\bBatch\(", source))
    return made


@pytest.mark.release
def test_real_code_with_batches_in_it_crashes_nothing(kept: Path) -> None:
    folder = kept / "real"
    copy_packages(folder)
    assert use_batches(folder) > 1000
    assert "[batch-field]" in str(check(folder, kept / "real cache"))


@slow
def test_real_code_crashes_nothing(kept: Path) -> None:
    copy_packages(kept / "real as it is")
    found = check(kept / "real as it is", kept / "real as it is cache").lines
    assert len(found) > 100, "such code is not without errors, so little of it was checked"


def errors(kept: Path, folder: Path, source: str, *options: str, config: str = CONFIG) -> set[tuple[int, str]]:
    """The line and code of each error in one program."""
    cache = warm(kept, MYPY if config == WITHOUT else PLUGIN, folder / "cache")
    found = by_command(folder / "program", cache, *options)({"mypy.ini": config, "program.py": source})
    return {(int(line), code) for line, code in re.findall(r"^program\.py:(\d+): error: .*\[(.*)\]$", str(found), re.M)}


ACTIVE = """
from typing import Literal
from typedbatch import mypy_plugin_active

_: Literal[True] = mypy_plugin_active()
"""


def test_a_line_proves_that_the_plugin_is_on(kept: Path, tmp_path: Path) -> None:
    assert errors(kept, tmp_path, ACTIVE) == set()


def test_the_line_fails_when_the_plugin_is_off(kept: Path, tmp_path: Path) -> None:
    assert errors(kept, tmp_path, ACTIVE, config=WITHOUT) == {(5, "assignment")}


SILENCED = """
from typedbatch import Batch

b = Batch(obs=1)
b.rew  # type: ignore[batch-field]
b.act
b.adv  # type: ignore[batch-maybe-field]
b.obs  # type: ignore[batch-field]
b.obs  # type: ignore


def f(flag: bool) -> None:
    b = Batch(obs=1)
    if flag:
        b.act = b.adv = 1
    b.act
    b.adv  # type: ignore[batch-maybe-field]
    b.rew
"""
MAYBE = (16, "batch-maybe-field")
FIELDS = {(line, "batch-field") for line in (6, 7, 18)}
UNUSED = {(line, "unused-ignore") for line in (7, 8, 9)}


def test_a_comment_silences_what_it_names_and_is_reported_when_unused(kept: Path, tmp_path: Path) -> None:
    assert errors(kept, tmp_path, SILENCED) == {MAYBE, *FIELDS, *UNUSED}


def test_a_code_can_be_disabled_for_a_module(kept: Path, tmp_path: Path) -> None:
    config = f"{CONFIG}[mypy-program]\ndisable_error_code = batch-maybe-field\n"
    assert errors(kept, tmp_path, SILENCED, config=config) == {*FIELDS, *UNUSED, (17, "unused-ignore")}


@slow  # as mypy then uses nothing of its cache
def test_a_code_can_be_disabled_for_a_run(kept: Path, tmp_path: Path) -> None:
    found = errors(kept, tmp_path, SILENCED, "--disable-error-code=batch-maybe-field")
    assert found == {*FIELDS, *UNUSED, (17, "unused-ignore")}
