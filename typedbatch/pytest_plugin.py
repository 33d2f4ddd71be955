"""The pytest plugin: ``--typedbatch=values`` sets the level of a run, and a failed ``a == b`` lists differing fields.

pytest loads the plugin if typedbatch is installed. The functions are hooks of pytest.
"""

from __future__ import annotations

from typing import Any

import pytest

from typedbatch._core.kinds import Tree
from typedbatch._core.level import default_level, set_default
from typedbatch._ops.equality import differences
from typedbatch.errors import SettingError

_previous_level = pytest.StashKey[str]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("typedbatch").addoption(
        "--typedbatch",
        metavar="LEVEL",
        help="level of validate() and @checked in this run: off, structure, values, values:first=256, values:batches=3 "
        "(default: TYPEDBATCH_CHECK)",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    # At level "off", @checked returns the function itself, so the level must be set before a conftest imports any.
    _set_level(early_config)


def pytest_configure(config: pytest.Config) -> None:
    _set_level(config)


def pytest_unconfigure(config: pytest.Config) -> None:
    if _previous_level in config.stash:
        set_default(config.stash[_previous_level], "the level")


def _set_level(config: pytest.Config) -> None:
    level = getattr(config.known_args_namespace, "typedbatch", None) or config.getoption("typedbatch", None)
    if level is None or _previous_level in config.stash:
        return
    config.stash[_previous_level] = default_level()
    try:
        set_default(level, "--typedbatch")
    except SettingError as error:
        raise pytest.UsageError(str(error)) from None


def pytest_report_header() -> str | None:
    level = default_level()
    return None if level == "structure" else f"typedbatch: {level}"


def pytest_assertrepr_compare(op: str, left: Any, right: Any) -> list[str] | None:
    if op != "==" or not isinstance(left, Tree) or not isinstance(right, Tree):
        return None
    try:
        found = differences(left, right)
    except Exception:  # noqa: BLE001  # a leaf of a foreign class may raise anything; pytest then explains by itself
        return None
    fields = "1 field" if len(found) == 1 else f"{len(found)} fields"
    return [f"{type(left).__name__} == {type(right).__name__}, but for {fields}:", *(f"  {line}" for line in found)]
