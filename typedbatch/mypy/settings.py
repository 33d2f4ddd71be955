"""Settings of the plugin in a project's configuration of mypy."""

from __future__ import annotations

import os
import tomllib
from configparser import ConfigParser, Error
from pathlib import Path
from typing import Any

from mypy.options import Options

SECTION = "typedbatch-mypy"
OWN_CODES = "TYPEDBATCH_OWN_CODES"
"""Name of the environment variable that :func:`wants_own_codes` reads."""


def wants_shapes(options: Options) -> bool:
    """Are shapes to be checked: yes, unless the section ``[typedbatch-mypy]`` says ``shapes = false``."""
    return _flag(options, "shapes", default=True)


def wants_unused_dims(options: Options) -> bool:
    """Are names of sizes to be noted that stand once: only if the same section says ``unused-dim = true``."""
    return _flag(options, "unused-dim", default=False)


def wants_own_codes() -> bool:
    """Have errors of mypy's own about batches a code of ours: under ``typedbatch check``, which shows no others."""
    return os.environ.get(OWN_CODES) == "1"


def _flag(options: Options, name: str, *, default: bool) -> bool:
    said = _section(options.config_file).get(name, default)
    return str(said).strip().lower() not in ("false", "no", "off", "0")


def _section(config_file: str | None) -> dict[str, Any]:
    path = Path(config_file) if config_file else None
    if path is None or not path.is_file():
        return {}
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".toml":
        try:
            found: Any = tomllib.loads(text).get("tool", {}).get(SECTION, {})
        except tomllib.TOMLDecodeError:  # mypy itself has said so
            return {}
        return found if isinstance(found, dict) else {}
    parser = ConfigParser()
    try:
        parser.read_string(text)
    except Error:
        return {}
    return dict(parser[SECTION]) if parser.has_section(SECTION) else {}
