"""Hooks that tell mypy the types of fields and of what methods of batches return."""
