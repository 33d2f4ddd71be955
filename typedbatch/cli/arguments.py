"""Arguments of the commands: batches in files of several formats, and schemas by name."""

from __future__ import annotations

import importlib
import pickle
import re
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

import typedbatch
from typedbatch._core.kinds import Tree, describe
from typedbatch._ops.conversion import torch_side
from typedbatch.batch import Batch
from typedbatch.errors import DeclarationError, StorageError, TypedBatchError, did_you_mean
from typedbatch.files import load
from typedbatch.files.regular import open_regular
from typedbatch.schema import schema_of
from typedbatch.schema.read import is_schema

_ENDINGS = (".safetensors", ".h5", ".hdf5", ".npz", ".pt", ".pth", ".pkl", ".pickle")
_HINT = "loading it could execute anything; pass --unsafe-pickle if you trust it"
_NAMED = re.compile(r"(?:(?P<module>\w+(?:\.\w+)*):)?(?P<name>\w+)(?:\[(?P<kinds>[\w., ]+)\])?")


def read(path: Path, unsafe_pickle: bool) -> Batch:
    """Return the batch in a file, which was saved as a batch or as arrays by name.

    Nothing in the file is executed without ``--unsafe-pickle``.
    """
    if path.suffix not in _ENDINGS:
        raise StorageError(f"{path} cannot be read: expected a file that ends in {', '.join(_ENDINGS)}")
    try:
        with open_regular(path) as file:
            content = _content(path, file, unsafe_pickle)
        if not isinstance(content, (Mapping, Tree)):
            raise StorageError(f"{path} does not contain arrays by name, but {describe(content)}")
        return content if isinstance(content, Batch) else Batch(content)
    except StorageError as error:
        if str(path) in str(error):
            raise
        raise StorageError(f"{path} cannot be read: {error}") from error
    except TypedBatchError as error:
        raise StorageError(f"{path} does not contain a batch: {error}") from error
    except Exception as error:  # Invalid content can raise any error in the loaders.
        reason = (str(error) or type(error).__name__).partition("\n")[0]
        raise StorageError(f"{path} cannot be read: {reason}") from error


def _content(path: Path, file: IO[bytes], unsafe_pickle: bool) -> Any:
    if path.suffix == ".safetensors":
        return load(path, allow_pickle=unsafe_pickle)
    if path.suffix in (".h5", ".hdf5"):
        from typedbatch.files._hdf5 import read_file
        from typedbatch.files.hdf5 import from_hdf5

        return load(path) if "typedbatch" in read_file(path, []).attributes else from_hdf5(path)
    if path.suffix in (".pt", ".pth"):
        torch: Any = torch_side().torch
        try:
            return torch.load(file, map_location="cpu", weights_only=not unsafe_pickle)
        except pickle.UnpicklingError as error:
            raise StorageError(f"{path} contains objects other than tensors, which are pickles; {_HINT}") from error
    if path.suffix != ".npz":
        if not unsafe_pickle:
            raise StorageError(f"{path} is a pickle; {_HINT}")
        return pickle.load(file)
    if file.read(2) != b"PK" or not zipfile.is_zipfile(file):
        raise StorageError(f"{path} is not an npz file, or is cut off")
    file.seek(0)
    with np.load(file, allow_pickle=unsafe_pickle) as arrays:
        try:
            return {name: arrays[name] for name in arrays.files}
        except ValueError as error:
            if "allow_pickle" not in str(error):
                raise
            raise StorageError(f"{path} contains arrays of objects, which are pickles; {_HINT}") from error


def schema_named(text: str) -> Any:
    """Return the protocol or record with a name.

    Args:
        text: A name such as ``"mine.batches:GoalRollout"``; without a module, the name of one of typedbatch's own.
            ``[Tensor]`` after the name selects the variant for tensors.
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
    public = {name: getattr(typedbatch, name) for name in typedbatch.__all__}
    schemas = [name for name, value in public.items() if isinstance(value, type) and is_schema(value)]
    reason = f"typedbatch has no {name!r}, and a schema of your own is written as module:Name"
    raise DeclarationError(reason + did_you_mean(name, schemas))


def _kind(name: str) -> Any:
    if name not in ("Tensor", "ndarray", "Any"):
        raise DeclarationError(f"the kind of a batch is one of Tensor, ndarray, Any, got {name!r}")
    return torch_side().torch.Tensor if name == "Tensor" else {"ndarray": np.ndarray, "Any": Any}[name]
