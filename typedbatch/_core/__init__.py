"""The base of the package: the leaves, rows, meta and memory of a batch, declarations, and levels of checking."""
