"""Batches in files: :func:`save` and :func:`load`. Loading never executes anything that a file holds.

``.safetensors`` is the format to choose: quick, checked, mapped into memory if asked, and read by other programs as
named tensors. ``.h5`` and ``.hdf5`` are compressed if asked.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import TypeForm

from typedbatch._declaration import schema_version, versions
from typedbatch._ops.conversion import require_device
from typedbatch._tree.meta import meta_of, set_meta
from typedbatch._tree.rows import require_bounded
from typedbatch._validation.validate import typed_copy, validate_at, verbatim
from typedbatch.batch import Batch
from typedbatch.errors import MissingDependencyError, SettingError, StorageError
from typedbatch.files import container
from typedbatch.files.atomic import replacing
from typedbatch.files.document import Reader, Writer, classes_of, with_classes
from typedbatch.files.regular import is_from_system
from typedbatch.records import BatchRecord, fill_defaults
from typedbatch.schema import class_of, matches, options_of, schema_of

__all__ = ["load", "save", "schema_version"]

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device
    from typedbatch.protocols import BatchProtocol

T = TypeVar("T")
_VERSION = 1


def save(
    batch: BatchProtocol,
    path: str | os.PathLike[str],
    schema: Any = None,
    *,
    allow_pickle: bool = False,
    compression: str | None = None,
) -> None:
    """Write a batch to a file, which is there whole or not at all.

    A link at ``path`` is replaced by the file; what it points to stays as it is.

    Arrays, tensors, text, numbers, ``None``, lists and dicts of these, and object arrays of these are kept as they are,
    and the classes Batch, SampleBatch and MultiAgentBatch; arrays come back in C order, tensors on the CPU, numbers of
    numpy that are inside objects as those of Python.

    Args:
        batch: what to write.
        path: the file; its ending says how: ``.safetensors``, ``.h5`` or ``.hdf5``.
        schema: a protocol or record that the batch must match; its name and version are kept. None for the class of a
            record.
        allow_pickle: pickle distributions and objects of other classes, instead of refusing them (safetensors only).
        compression: ``"gzip"`` or ``"lzf"`` (HDF5 only).

    Raises:
        StorageError: a leaf that cannot be kept, which the error names, or a file that cannot be written.
        StructureError: batches are nested more than 100 deep.
        SchemaError: the batch does not match.
        SettingError: an ending, or an argument, that there is not for this format.
    """
    tree = require_bounded(batch, "save()")
    if schema is None and isinstance(batch, BatchRecord):
        schema = type(batch)
    if schema is not None:
        validate_at(tree, schema, verbatim(f"save() to {path}"))
    identity = None if schema is None else _identity(tree, schema)
    if _is_hdf5(path):
        if compression not in (None, "gzip", "lzf"):
            raise SettingError(f"compression= is 'gzip' or 'lzf', got {compression!r}")
        if allow_pickle:
            raise SettingError("allow_pickle= is for safetensors files; HDF5 files hold no pickles")
        from typedbatch.files import hdf5

        with replacing(path) as unfinished:
            document = {"version": _VERSION, **classes_of(tree), **_known(identity)}
            hdf5.write_file(unfinished, tree, document, compression)
        return
    if compression is not None:
        raise SettingError("compression= is for HDF5 files; safetensors files are never compressed")
    writer = Writer(allow_pickle)
    document = {"version": _VERSION, "tree": writer.node(tree, ""), **_known(identity)}
    with replacing(path) as unfinished:
        container.write(unfinished, writer.arrays, document)


def __dir__() -> list[str]:
    return __all__  # what is public; not the modules that it comes from


@overload
def load(
    path: str | os.PathLike[str],
    *,
    mmap: bool = False,
    device: Device | None = None,
    allow_pickle: bool = False,
    trusted: bool = False,
) -> Batch: ...
@overload
def load(
    path: str | os.PathLike[str],
    schema: TypeForm[T],
    *,
    mmap: bool = False,
    device: Device | None = None,
    allow_pickle: bool = False,
    trusted: bool = False,
) -> T: ...
@overload  # jedi knows no TypeForm; it reads this one, and checkers never reach it
def load(  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
    path: str | os.PathLike[str],
    schema: type[T],
    *,
    mmap: bool = False,
    device: Device | None = None,
    allow_pickle: bool = False,
    trusted: bool = False,
) -> T: ...
def load(
    path: str | os.PathLike[str],
    schema: Any = None,
    *,
    mmap: bool = False,
    device: Device | None = None,
    allow_pickle: bool = False,
    trusted: bool = False,
) -> Any:
    """Read a batch from a file, under the type of a schema if one is given. Nothing in the file is executed.

    Args:
        path: a ``.safetensors``, ``.h5`` or ``.hdf5`` file: of :func:`save`, or any safetensors file, whose tensors are
            the fields.
        schema: a protocol or record that the batch must match. If it has the name that the file was saved under, it
            must have the same version too (see :func:`schema_version`).
        mmap: leave the arrays in the file until they are looked at (safetensors only). What is written into them stays
            in memory, and the file as it is. Data that are not read are not checked.
        device: where tensors go; None for the CPU.
        allow_pickle: load pickles, if there are any. They may execute anything: only for files that you trust.
        trusted: read HDF5 in this process (HDF5 only). That is faster for many small files, but the HDF5 library can
            hang, or end the process, over a file that is damaged or made up; without it another process, with limits on
            time and memory, does the reading.

    Raises:
        StorageError: the file is not there, not a regular file, cut off, damaged, of another version, or holds a
            pickle. Nothing in it was executed.
        SchemaError: the batch does not match.
        SettingError: an ending, or an argument, that there is not for this format.
    """
    hdf5 = _is_hdf5(path)
    require_device(device)
    if hdf5 and (mmap or allow_pickle):
        raise SettingError("mmap= and allow_pickle= are for safetensors files")
    if trusted and not hdf5:
        raise SettingError("trusted= is for HDF5 files; safetensors files are read by nobody else")
    try:
        batch, document = (
            _load_hdf5(path, device, trusted) if hdf5 else _load_safetensors(path, mmap, device, allow_pickle)
        )
        stored = document.get("schema")
        known = None if stored is None else (str(stored["name"]), int(stored["version"]))
    except MissingDependencyError:
        raise
    except StorageError as error:
        named = str(path) in str(error)
        raise StorageError(str(error) if named else f"{path} cannot be read: {error}") from error.__cause__
    except OSError as error:
        if not is_from_system(error):
            raise
        raise StorageError(f"{path} cannot be read: {error}") from error
    except RecursionError as error:
        raise StorageError(f"{path} cannot be read: nested deeper than there is stack left") from error
    except Exception as error:  # whatever it is, what was read is the reason for it
        raise StorageError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    return batch if schema is None else _under(batch, schema, known, str(path))


def _is_hdf5(path: str | os.PathLike[str]) -> bool:
    if "\0" in str(path):
        raise SettingError(f"a path has no NUL in it, got {str(path)!r}")
    ending = Path(path).suffix
    if ending not in (".safetensors", ".h5", ".hdf5"):
        raise SettingError(f"a file ends in .safetensors, .h5 or .hdf5, got {str(path)!r}")
    return ending != ".safetensors"


def _load_hdf5(path: str | os.PathLike[str], device: Any, trusted: bool) -> tuple[Batch, dict[str, Any]]:
    from typedbatch.files import hdf5

    tree, document = hdf5.read_batch_file(path, device, trusted=trusted)
    _require_version(document)
    batch = with_classes(tree, document)
    if meta := meta_of(tree):
        set_meta(batch, meta)
    return batch, document


def _load_safetensors(
    path: str | os.PathLike[str], mmap: bool, device: Any, allow_pickle: bool
) -> tuple[Batch, dict[str, Any]]:
    arrays, document = container.read(path, mmap)
    reader = Reader(arrays, device, allow_pickle)
    if document is None:
        return reader.everything(), {}
    _require_version(document)
    batch = reader.value(document["tree"])
    if not isinstance(batch, Batch):
        raise StorageError("it holds no batch")
    return batch, document


def _require_version(document: dict[str, Any]) -> None:
    if document["version"] != _VERSION:
        raise StorageError(f"it has version {document['version']} of this format, and version {_VERSION} can be read")


def _identity(batch: Any, schema: Any) -> tuple[str, int] | None:
    """The name and version of the schema that a batch matches, the first one of a union."""
    for option in options_of(schema):
        if option is not type(None) and matches(batch, schema_of(option)):
            return class_of(option).__name__, versions.get(class_of(option), 1)
    return None  # nothing is checked at this level


def _known(identity: tuple[str, int] | None) -> dict[str, Any]:
    return {} if identity is None else {"schema": {"name": identity[0], "version": identity[1]}}


def _under(batch: Batch, schema: Any, known: tuple[str, int] | None, path: str) -> Any:
    """The batch as an object of the schema that is asked for, or of the part of a union that it matches."""
    given = [option for option in options_of(schema) if option is not type(None)]
    for option in given:
        cls = class_of(option)
        if known is not None and known[0] == cls.__name__ and known[1] != versions.get(cls, 1):
            raise StorageError(
                f"{path} holds a {known[0]} of version {known[1]}, and the program declares version "
                f"{versions.get(cls, 1)}; load it without a schema, change it, and save it anew"
            )
    fitting = [option for option in given if matches(batch, schema_of(option))]
    if fitting or len(given) == 1:
        batch = typed_copy(batch, schema_of((fitting or given)[0]), "load()")
        fill_defaults(type(batch), batch.__dict__)
    return validate_at(batch, schema, verbatim(f"load() of {path}"))
