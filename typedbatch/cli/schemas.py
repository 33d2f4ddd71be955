"""Look-up of a protocol or record by ``package.module:Name``."""

from __future__ import annotations

import importlib
import re
import sys
from typing import Any

import numpy as np

import typedbatch
from typedbatch._ops.conversion import torch_side
from typedbatch.errors import DeclarationError, did_you_mean
from typedbatch.schema import schema_of
from typedbatch.schema.read import is_schema

_NAMED = re.compile(r"(?:(?P<module>\w+(?:\.\w+)*):)?(?P<name>\w+)(?:\[(?P<kinds>[\w., ]+)\])?")


def schema_named(text: str) -> Any:
    """Return the protocol or record with a name.

    Args:
        text: A name such as ``"mine.batches:GoalRollout"``; without a module, the name of one of typedbatch's own.
            ``[Tensor]`` after the name selects the variant for tensors.

    Raises:
        DeclarationError: The module or the name in it does not exist, or it is not a schema.
    """
    match = _NAMED.fullmatch(text)
    if match is None:
        raise DeclarationError(f"a schema is written as module:Name or module:Name[Tensor], got {text!r}")
    name, module = match["name"], typedbatch
    if match["module"]:
        if "" not in sys.path:
            # For a command, Python adds the folder of its script to the path, and not the current folder. The current
            # folder is added at the end, so that a file beside the data cannot replace a library.
            sys.path.append("")
        try:
            module = importlib.import_module(match["module"])
        except (Exception, SystemExit) as error:  # A user's module can raise anything, or exit, when it is imported.
            if isinstance(error, ModuleNotFoundError) and error.name == match["module"]:
                raise DeclarationError(f"cannot find the module {match['module']!r}") from error
            reason = f"{match['module']} cannot be imported: {type(error).__name__}: {error}"
            raise DeclarationError(reason) from error
    try:
        if hasattr(module, name):
            found: Any = getattr(module, name)
            if match["kinds"]:
                found = found[tuple(_kind(kind.strip()) for kind in match["kinds"].split(","))]
            schema_of(found)
            return found
    except Exception as error:  # A user's module or class can raise anything when it is read.
        raise DeclarationError(f"{text} is not a schema: {error}") from error
    if match["module"]:
        raise DeclarationError(f"{module.__name__} has no {name!r}{did_you_mean(name, dir(module))}")
    schemas = [name for name, value in vars(typedbatch).items() if isinstance(value, type) and is_schema(value)]
    reason = f"typedbatch has no {name!r}, and a schema of your own is written as module:Name"
    raise DeclarationError(reason + did_you_mean(name, schemas))


def _kind(name: str) -> Any:
    if name not in ("Tensor", "ndarray", "Any"):
        raise DeclarationError(f"the kind of a batch is one of Tensor, ndarray, Any, got {name!r}")
    return torch_side().torch.Tensor if name == "Tensor" else {"ndarray": np.ndarray, "Any": Any}[name]
