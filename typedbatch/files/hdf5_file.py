"""One batch as an HDF5 file. Needs the extra ``hdf5``."""

from __future__ import annotations

import json
import os
from typing import IO, Any

import numpy as np

from typedbatch._hdf5.build import built
from typedbatch._hdf5.nodes import text_of
from typedbatch._hdf5.process import read_file
from typedbatch._hdf5.target import written
from typedbatch.errors import StorageError
from typedbatch.hdf5 import to_hdf5
from typedbatch.leaves import Tree

_ROOT = "batch"


def write(file: IO[bytes], tree: Tree, document: dict[str, Any], compression: str | None) -> None:
    """Write a batch, and a document that JSON takes, to an empty raw file.

    Raises:
        StorageError: a leaf that HDF5 and JSON cannot hold.
        OSError: the disk is full.
    """
    with written(file) as found:
        found.attrs["typedbatch"] = np.bytes_(json.dumps(document))
        group = found.create_group(_ROOT, track_order=True)
        group.attrs["__data_type__"] = np.bytes_("Batch")
        to_hdf5(tree, group, compression)


def read(path: str | os.PathLike[str], device: Any, *, trusted: bool) -> tuple[Tree, dict[str, Any]]:
    """The batch of a file, and its document.

    Raises:
        StorageError: it holds something else.
    """
    root = read_file(path, [_ROOT], trusted=trusted)
    if "typedbatch" not in root.attributes:
        raise StorageError("it is not a file of typedbatch.files; typedbatch.hdf5.from_hdf5 reads others")
    document: dict[str, Any] = json.loads(text_of(root.attributes["typedbatch"]))
    tree = built(root.members[_ROOT], device) if _ROOT in root.members else None
    if not isinstance(tree, Tree):
        raise StorageError("it holds no batch")
    return tree, document
