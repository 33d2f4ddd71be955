"""Shapes and dtypes of arrays: sizes, what is declared, and a table of operations."""
