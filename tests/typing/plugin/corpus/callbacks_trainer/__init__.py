"""A trainer with hooks."""
