"""HDF5 files as plain data, read in this process or in a separate one that may crash."""

from typedbatch.errors import MissingDependencyError
from typedbatch.files.regular import is_from_system

try:
    import h5py
except ModuleNotFoundError as _error:
    raise MissingDependencyError("HDF5 files need h5py; pip install 'typedbatch[hdf5]'") from _error

__all__ = ["h5py", "is_from_hdf5"]


def is_from_hdf5(error: Exception) -> bool:
    """Return whether h5py, or the operating system, may have raised an error."""
    return not isinstance(error, OSError) or is_from_system(error)
