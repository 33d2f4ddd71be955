"""HDF5 files as plain data, read in this process or in a separate one that may crash."""

from typedbatch.errors import MissingDependencyError

try:
    import h5py
except ModuleNotFoundError as _error:
    raise MissingDependencyError("HDF5 files need h5py; pip install 'typedbatch[hdf5]'") from _error

__all__ = ["h5py", "is_from_hdf5"]


def is_from_hdf5(error: Exception) -> bool:
    """Return whether h5py, or the operating system, may have raised an error.

    h5py raises ``OSError`` itself, without a number. Errors of its subclasses that have none are from elsewhere, such
    as the ``TimeoutError`` of a signal handler.
    """
    return not isinstance(error, OSError) or type(error) is OSError or error.errno is not None
