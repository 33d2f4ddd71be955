"""Shapes and dtypes of arrays: sizes, declarations, and tables of operations."""
