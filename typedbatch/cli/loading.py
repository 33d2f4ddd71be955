"""Loading of batches from files of several formats. Nothing in a file is executed without ``--unsafe-pickle``."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from typedbatch._ops.conversion import torch_side
from typedbatch._tree.kinds import Tree, describe
from typedbatch.batch import Batch
from typedbatch.errors import StorageError, TypedBatchError
from typedbatch.files import load
from typedbatch.files.regular import is_from_system, open_regular

_ENDINGS = (".safetensors", ".h5", ".hdf5", ".npz", ".pt", ".pth", ".pkl", ".pickle")
_HINT = "loading it could execute anything; pass --unsafe-pickle if you trust it"


def read(path: Path, unsafe_pickle: bool) -> Batch:
    """Return the batch in a file, which was saved as a batch or as arrays by name.

    Raises:
        StorageError: The file has another ending, is not a regular file, is damaged, does not contain a batch, or
            contains a pickle that is not allowed.
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
        if isinstance(error, OSError) and not is_from_system(error):
            raise
        reason = (str(error) or type(error).__name__).partition("\n")[0]
        raise StorageError(f"{path} cannot be read: {reason}") from error


def _content(path: Path, file: IO[bytes], unsafe_pickle: bool) -> Any:
    if path.suffix == ".safetensors":
        return load(path, allow_pickle=unsafe_pickle)
    if path.suffix in (".h5", ".hdf5"):
        from typedbatch.files.hdf5 import from_hdf5, is_batch_file

        return load(path) if is_batch_file(path) else from_hdf5(path)
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
