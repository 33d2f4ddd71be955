"""An older code base: no annotations, batches passed about freely."""
