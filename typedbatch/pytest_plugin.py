"""For pytest: ``--typedbatch=values`` sets the level of a test run, and ``assert a == b`` names the fields that differ.

It is found by pytest once typedbatch is installed. The functions are pytest's hooks.
"""

from __future__ import annotations

from typing import Any

import pytest

from typedbatch._level import current_level, set_default
from typedbatch._ops.differences import differences
from typedbatch._tree.leaves import Tree
from typedbatch.errors import SettingError

_before = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("typedbatch").addoption(
        "--typedbatch",
        metavar="LEVEL",
        help="what validate() and @checked check in this run: off, structure or values (else TYPEDBATCH_CHECK)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    _set_level(early_config)  # before a conftest imports what is decorated with @checked


def pytest_configure(config: pytest.Config) -> None:
    _set_level(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _before in config.stash:
        set_default(config.stash[_before], "the level")


def _set_level(config: pytest.Config) -> None:
    level = getattr(config.known_args_namespace, "typedbatch", None) or config.getoption("typedbatch", None)
    if level is None or _before in config.stash:
        return
    config.stash[_before] = current_level()
    try:
        set_default(level, "--typedbatch")
    except SettingError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header() -> str | None:
    level = current_level()
    return None if level == "structure" else f"typedbatch: {level}"


def pytest_assertrepr_compare(op: str, left: Any, right: Any) -> list[str] | None:
    if op != "==" or not isinstance(left, Tree) or not isinstance(right, Tree):
        return None
    try:
        found = differences(left, right)
    except Exception:  # noqa: BLE001  # a leaf of a foreign class may raise anything; pytest then says what it can
        return None
    fields = "1 field" if len(found) == 1 else f"{len(found)} fields"
    return [f"{type(left).__name__} == {type(right).__name__}, but for {fields}:", *(f"  {line}" for line in found)]
