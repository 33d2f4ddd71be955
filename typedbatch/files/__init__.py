"""Batches in files: :func:`save` and :func:`load`. Loading never executes code from a file unless pickles are allowed.

``.safetensors`` is the format to choose: it is fast, has checksums, can be mapped into memory, and other programs read
it as named tensors. ``.h5`` and ``.hdf5`` files can be compressed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, overload

from typing_extensions import TypeForm

from typedbatch._core.declaration import schema_version, versions
from typedbatch._core.lengths import require_bounded
from typedbatch._ops.conversion import require_device
from typedbatch._validation.validate import typed_copy, validate_at
from typedbatch.batch import Batch
from typedbatch.errors import MissingDependencyError, SettingError, StorageError
from typedbatch.files import container
from typedbatch.files.document import VERSION, DocumentReader, DocumentWriter, classes_of, require_version
from typedbatch.files.regular import atomic_write
from typedbatch.records import BatchRecord, fill_defaults, type_of
from typedbatch.schema import schema_of
from typedbatch.schema.generate import check_of
from typedbatch.schema.read import options_of
from typedbatch.schema.values import class_of

__all__ = ["load", "save", "schema_version"]

if TYPE_CHECKING:
    from typedbatch._ops.conversion import Device
    from typedbatch.protocols import BatchProtocol

T = TypeVar("T")


def save(
    batch: BatchProtocol,
    path: str | os.PathLike[str],
    schema: Any = None,
    *,
    allow_pickle: bool = False,
    compression: str | None = None,
) -> None:
    """Write a batch to a file atomically: the file is complete, or it is not there.

    A link at ``path`` is replaced by the file, and the target of the link does not change.

    Arrays, tensors, text, numbers, ``None``, lists and dicts of these, and object arrays of these come back as they
    were. So do the classes Batch, SampleBatch and MultiAgentBatch. Arrays come back in C order and tensors on the CPU.
    Numpy numbers inside lists, dicts and object arrays come back as Python numbers.

    Args:
        batch: The batch to write.
        path: The file. Its ending selects the format: ``.safetensors``, ``.h5`` or ``.hdf5``.
        schema: A protocol or record that the batch must match. The file stores its name and version. None means the
            batch's own class if that is a record, and no schema otherwise.
        allow_pickle: Whether to pickle distributions and objects of other classes instead of refusing them
            (safetensors only).
        compression: ``"gzip"`` or ``"lzf"`` (HDF5 only).

    Raises:
        StorageError: A leaf cannot be stored, and the error names it; or the file cannot be written.
        StructureError: Batches are nested more than 100 deep.
        SchemaError: The batch does not match the schema.
        SettingError: The file has another ending, or its format does not have this option.
    """
    tree = require_bounded(batch, "save()")
    if schema is None and isinstance(batch, BatchRecord):
        schema = type_of(batch)
    if schema is not None:
        validate_at(tree, schema, f"save() to {path}")
    known: dict[str, Any] = {}
    for option in () if schema is None else options_of(schema):
        # Of a union, the first member that matches counts. If checking is off, there may be none.
        if option is not type(None) and check_of(schema_of(option))(tree):
            cls = class_of(option)
            known["schema"] = {"name": cls.__name__, "version": versions.get(cls, 1)}
            break
    if _is_hdf5(path):
        if compression not in (None, "gzip", "lzf"):
            raise SettingError(f"compression= is 'gzip' or 'lzf', got {compression!r}")
        if allow_pickle:
            raise SettingError("allow_pickle= is for safetensors files; HDF5 files hold no pickles")
        from typedbatch.files import hdf5

        with atomic_write(path) as unfinished:
            document = {"version": VERSION, **classes_of(tree), **known}
            hdf5.write_file(unfinished, tree, document, compression)
        return
    if compression is not None:
        raise SettingError("compression= is for HDF5 files; safetensors files are never compressed")
    writer = DocumentWriter(allow_pickle)
    document = {"version": VERSION, "tree": writer.node(tree, ""), **known}
    with atomic_write(path) as unfinished:
        container.write(unfinished, writer.arrays, document)


def __dir__() -> list[str]:
    return __all__  # so that completion shows public names only


@overload
def load(
    path: str | os.PathLike[str], *,
    mmap: bool = False, device: Device | None = None, allow_pickle: bool = False, trusted: bool = False,
) -> Batch: ...  # fmt: skip
@overload
def load(
    path: str | os.PathLike[str], schema: TypeForm[T], *,
    mmap: bool = False, device: Device | None = None, allow_pickle: bool = False, trusted: bool = False,
) -> T: ...  # fmt: skip
@overload  # for jedi, which does not understand TypeForm; type checkers never reach it
def load(  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
    path: str | os.PathLike[str], schema: type[T], *,
    mmap: bool = False, device: Device | None = None, allow_pickle: bool = False, trusted: bool = False,
) -> T: ...  # fmt: skip
def load(
    path: str | os.PathLike[str], schema: Any = None, *,
    mmap: bool = False, device: Device | None = None, allow_pickle: bool = False, trusted: bool = False,
) -> Any:  # fmt: skip
    """Read a batch from a file, with the type of a schema if one is given.

    Nothing in the file is executed, unless ``allow_pickle`` is set.

    Args:
        path: A ``.safetensors``, ``.h5`` or ``.hdf5`` file from :func:`save`. Safetensors files of other programs are
            read too; their tensors become the fields.
        schema: A protocol or record that the batch must match. If it has the name that the file was saved under, it
            must have the same version too (see :func:`schema_version`).
        mmap: Whether to leave the arrays in the file until they are used (safetensors only). Writes to them stay in
            memory and do not change the file. The checksums of the arrays are not verified.
        device: Device of the tensors; None means the CPU.
        allow_pickle: Whether to load pickles. They may execute anything, so use this only for files that you trust.
        trusted: Whether to read HDF5 in this process (HDF5 only). That is faster for many small files, but a damaged
            or malicious file can make the HDF5 library hang or crash the process. Otherwise another process reads the
            file, with limits on time and memory, unless this process has written it.

    Raises:
        StorageError: The file does not exist, is not a regular file, is cut off or damaged, has another version, or
            contains a pickle. Nothing in it was executed.
        SchemaError: The batch does not match the schema.
        SettingError: The file has another ending, or its format does not have this option.
    """
    is_hdf5 = _is_hdf5(path)
    require_device(device)
    if is_hdf5 and (mmap or allow_pickle):
        raise SettingError("mmap= and allow_pickle= are for safetensors files")
    if trusted and not is_hdf5:
        raise SettingError("trusted= is for HDF5 files; safetensors files are always read in this process")
    try:
        if is_hdf5:
            from typedbatch.files import hdf5

            batch, document = hdf5.read_batch_file(path, device, trusted=trusted)
        else:
            batch, document = _load_safetensors(path, mmap, device, allow_pickle)
        stored = document.get("schema")
        known = None if stored is None else (str(stored["name"]), int(stored["version"]))
    except MissingDependencyError:
        raise
    except StorageError as error:
        named = str(path) in str(error)
        raise StorageError(str(error) if named else f"{path} cannot be read: {error}") from error.__cause__
    except OSError as error:
        raise StorageError(f"{path} cannot be read: {error}") from error
    except RecursionError as error:
        raise StorageError(f"{path} cannot be read: it is nested too deeply for Python's stack") from error
    except Exception as error:  # Invalid content can raise any error in the code above.
        raise StorageError(f"{path} is damaged: {type(error).__name__}: {error}") from error
    return batch if schema is None else _under(batch, schema, known, str(path))


def _is_hdf5(path: str | os.PathLike[str]) -> bool:
    if "\0" in str(path):
        raise SettingError(f"a path cannot contain a NUL character, got {str(path)!r}")
    ending = Path(path).suffix
    if ending not in (".safetensors", ".h5", ".hdf5"):
        raise SettingError(f"the file name must end in .safetensors, .h5 or .hdf5, got {str(path)!r}")
    return ending != ".safetensors"


def _load_safetensors(
    path: str | os.PathLike[str], mmap: bool, device: Any, allow_pickle: bool
) -> tuple[Batch, dict[str, Any]]:
    arrays, document = container.read(path, mmap)
    reader = DocumentReader(arrays, device, allow_pickle)
    if document is None:
        return reader.everything(), {}
    require_version(document)
    batch = reader.value(document["tree"])
    if not isinstance(batch, Batch):
        raise StorageError("it does not contain a batch")
    return batch, document


def _under(batch: Batch, schema: Any, known: tuple[str, int] | None, path: str) -> Any:
    """Return the batch as an object of a schema; of a union, of the first member that it matches."""
    options = [option for option in options_of(schema) if option is not type(None)]
    for option in options:
        cls = class_of(option)
        if known is not None and known[0] == cls.__name__ and known[1] != versions.get(cls, 1):
            raise StorageError(
                f"{path} contains a {known[0]} of version {known[1]}, but the program declares version "
                f"{versions.get(cls, 1)}; load it without a schema, change it, and save it again"
            )
    matching = [option for option in options if check_of(schema_of(option))(batch)]
    if matching or len(options) == 1:
        batch = typed_copy(batch, schema_of((matching or options)[0]), "load()")
        fill_defaults(type(batch), batch.__dict__)
    return validate_at(batch, schema, f"load() of {path}")
