"""Settings of mypy in a project: those that say where its code is are kept, and those of strictness are ours."""

from __future__ import annotations

import os
import re
import tomllib
from configparser import ConfigParser, Error
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, Final

from typedbatch.errors import SettingError

PLUGIN: Final = "typedbatch.mypy"
FILES: Final = ("mypy.ini", ".mypy.ini", "pyproject.toml", "setup.cfg")
_KEPT: Final = (
    "python_version", "platform", "mypy_path", "namespace_packages", "explicit_package_bases", "exclude",
    "always_true", "always_false", "custom_typeshed_dir",
)  # fmt: skip
"""Settings that say which code there is, and for which Python."""
_SECTIONS: Final = ("mypy", "typedbatch-mypy")


@dataclass(frozen=True)
class Settings:
    """Settings of mypy in a project.

    Attributes:
        root: Folder that paths in the settings are relative to.
        file: File that they are in, or None.
        mypy: The section of mypy.
        typedbatch: The section of the plugin.
    """

    root: Path
    file: Path | None = None
    mypy: dict[str, str] = field(default_factory=dict)
    typedbatch: dict[str, str] = field(default_factory=dict)

    @property
    def plugins(self) -> list[str]:
        """Plugins that the project has, without ours."""
        found = [name for name in self._listed("plugins") if name != PLUGIN]
        return [str(self.root / name) if name.partition(":")[0].endswith(".py") else name for name in found]

    @property
    def has_plugin(self) -> bool:
        """True if the settings turn on typedbatch's plugin."""
        return PLUGIN in self.mypy.get("plugins", "")

    @property
    def wants_shapes(self) -> bool:
        """True unless the section of the plugin says ``shapes = false``."""
        return self.typedbatch.get("shapes", "").strip().lower() not in ("false", "no", "off", "0")

    def files_from(self, folder: Path) -> list[str]:
        """Return the paths that the settings name, relative to a folder; an empty list if they name none."""
        patterns = [pattern.removesuffix("/") for pattern in self._listed("files")]
        return [os.path.relpath(path, folder) for pattern in patterns for path in sorted(self.root.glob(pattern))]

    def excludes(self, path: Path) -> bool:
        """Return True if the settings leave a file out. mypy reports a pattern that it cannot read."""
        pattern = self.mypy.get("exclude", "").strip()
        try:
            return bool(pattern) and re.search(pattern, Path(os.path.relpath(path, self.root)).as_posix()) is not None
        except re.error:
            return False

    def written(self, skipped: list[str]) -> str:
        """Return the settings for a run of ours that skips modules, as the text of an ini file."""
        folders = [str(self.root), *([str(self.root / "src")] if (self.root / "src").is_dir() else [])]
        section = {
            "namespace_packages": "True",
            "explicit_package_bases": "True",
            "mypy_path": ":".join(folders),
            **{name: value for name, value in self.mypy.items() if name in _KEPT},
            "plugins": ", ".join([PLUGIN, *self.plugins]),
            "check_untyped_defs": "True",
            "ignore_missing_imports": "True",
        }
        parser = ConfigParser(interpolation=None)
        parser["mypy"] = section
        parser["typedbatch-mypy"] = self.typedbatch
        for module in skipped:
            parser[f"mypy-{module}"] = {"follow_imports": "skip"}
        text = StringIO()
        parser.write(text)
        return text.getvalue()

    def _listed(self, name: str) -> list[str]:
        return [part.strip() for part in self.mypy.get(name, "").replace("\n", ",").split(",") if part.strip()]


def settings_of(folder: Path) -> Settings:
    """Return the settings of mypy in a folder or one above it, up to the root of a repository."""
    for root in (folder, *folder.parents):
        for name in FILES:
            path = root / name
            sections = _sections(path) if path.is_file() else {}
            if "mypy" in sections:
                return Settings(root, path, sections["mypy"], sections.get("typedbatch-mypy", {}))
        if any((root / name).exists() for name in (".git", ".hg", "pyproject.toml", "setup.cfg")):
            return Settings(root)
    return Settings(folder)


def _sections(path: Path) -> dict[str, dict[str, str]]:
    text = path.read_text("utf-8")
    if path.suffix == ".toml":
        try:
            tool: Any = tomllib.loads(text).get("tool", {})
        except tomllib.TOMLDecodeError as error:
            raise SettingError(f"{path} cannot be read as TOML: {error}") from error
        return {
            name: {key: _as_ini(key, value) for key, value in tool[name].items()} for name in _SECTIONS if name in tool
        }
    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except Error as error:
        raise SettingError(f"{path} cannot be read: {error}") from error
    return {name: dict(parser[name]) for name in _SECTIONS if parser.has_section(name)}


def _as_ini(key: str, value: Any) -> str:
    if isinstance(value, list):
        return ("|" if key == "exclude" else ", ").join(str(part) for part in value)
    return str(value)
