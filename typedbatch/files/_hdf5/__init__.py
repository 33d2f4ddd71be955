"""HDF5 files as plain data, read in this process or in a separate one that may crash."""

from typedbatch.errors import MissingDependencyError
from typedbatch.files.regular import is_from_system

try:
    import h5py
except ModuleNotFoundError as _error:
    raise MissingDependencyError("HDF5 files need h5py; pip install 'typedbatch[hdf5]'") from _error

__all__ = ["decoded", "h5py", "is_from_hdf5", "text_of"]


def is_from_hdf5(error: Exception) -> bool:
    """Return whether h5py, or the operating system, may have raised an error."""
    return not isinstance(error, OSError) or is_from_system(error)


def text_of(attribute: object) -> str:
    """Return the text of an attribute. typedbatch writes text as bytes, and Tianshou writes it as strings."""
    return attribute.decode() if isinstance(attribute, bytes) else str(attribute)


def decoded(name: str) -> str:
    """Return the name of a field for an escaped name of the file."""
    if name == "%":
        return ""
    for code, character in (("%2E", "."), ("%00", "\0"), ("%2F", "/"), ("%25", "%")):
        name = name.replace(code, character)
    return name
