"""Former names of public objects. They work for one release more, with a DeprecationWarning."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from typing import Any


def former(module: str, name: str, names: Mapping[str, str]) -> Any:
    """Return the object that had another name, for the ``__getattr__`` of a module.

    Args:
        module: Name of the module.
        name: Name that was asked for.
        names: The new name for each former one.

    Raises:
        AttributeError: ``name`` is not a former name.
    """
    if name not in names:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    warnings.warn(f"{module}.{name} is now {module}.{names[name]}", DeprecationWarning, stacklevel=3)
    return getattr(sys.modules[module], names[name])
