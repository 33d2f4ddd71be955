"""What all of the package stands on: the leaves, rows, meta and memory of a batch, declarations, and levels of checking."""
