"""Stand-ins for packages that a trainer imports, and that its update does not need."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class Thing:
    """Anything that is imported from a stand-in: a base class, a decorator with or without arguments, an object."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args

    def __class_getitem__(cls, item: Any) -> type[Thing]:
        return cls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if args else self


class StandIn(ModuleType):
    """A module in which every name is a class of its own."""

    __path__: Sequence[str] = ()
    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = type(name, (Thing,), {"__module__": self.__name__})
        setattr(self, name, value)
        return value


class Finder(MetaPathFinder, Loader):
    """Finder of packages, and of all of their modules, that are replaced."""

    def __init__(self, packages: Sequence[str]) -> None:
        self.packages = packages

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> ModuleSpec | None:
        is_replaced = any(fullname == name or fullname.startswith(f"{name}.") for name in self.packages)
        return ModuleSpec(fullname, self, is_package=True) if is_replaced else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing, as there is no code."""


def stand_in(*packages: str) -> None:
    """Replace those of these packages that are not installed."""
    sys.meta_path.insert(0, Finder([name for name in packages if not is_installed(name)]))
    importlib.invalidate_caches()


def is_installed(package: str) -> bool:
    """Return whether a package can be found."""
    return importlib.util.find_spec(package) is not None
