"""Validation of batches against protocols and records: by a call, at function boundaries, and after conversion."""
