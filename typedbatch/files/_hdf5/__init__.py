"""HDF5 files as plain data: read in this process, or in one that may come to harm."""

from typedbatch.errors import MissingDependencyError

try:
    import h5py
except ModuleNotFoundError as _error:
    raise MissingDependencyError("HDF5 files need h5py; pip install 'typedbatch[hdf5]'") from _error

__all__ = ["h5py"]
