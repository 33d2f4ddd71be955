"""Whether a batch is what a protocol or record declares."""
