"""The parts of a batch: leaves, rows, meta, and their memory."""
