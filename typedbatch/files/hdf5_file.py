"""One batch as an HDF5 file. Needs the extra ``hdf5``."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from typedbatch.errors import StorageError
from typedbatch.hdf5 import attribute, from_hdf5, member, text_of, to_hdf5
from typedbatch.leaves import Tree

_ROOT = "batch"


def write(path: Path, tree: Tree, document: dict[str, Any], compression: str | None) -> None:
    """Write a batch, and a document that JSON takes, to a new file.

    Raises:
        StorageError: a leaf that HDF5 and JSON cannot hold.
        OSError: the disk is full.
    """
    try:
        with h5py.File(path, "x", track_order=True, libver="latest") as file:  # the newest format has checksums
            file.attrs["typedbatch"] = np.bytes_(json.dumps(document))
            group = file.create_group(_ROOT, track_order=True)
            group.attrs["__data_type__"] = np.bytes_("Batch")
            to_hdf5(tree, group, compression)
    except RuntimeError as error:  # of closing the file
        raise OSError(str(error)) from error


def read(path: str | os.PathLike[str], device: Any) -> tuple[Tree, dict[str, Any]]:
    """The batch of a file, and its document.

    Raises:
        StorageError: it holds something else.
    """
    with h5py.File(path, "r") as file:
        if "typedbatch" not in file.attrs:
            raise StorageError("it is not a file of typedbatch.files; typedbatch.hdf5.from_hdf5 reads others")
        document: dict[str, Any] = json.loads(text_of(attribute(file, "typedbatch")))
        tree = from_hdf5(member(file, _ROOT), device)
    if not isinstance(tree, Tree):
        raise StorageError("it holds no batch")
    return tree, document
