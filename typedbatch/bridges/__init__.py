"""Batches in the forms of other libraries and back, one module for each, the only one that imports it.

Memory is shared wherever both sides can hold it; docs/bridges.md says where not.
"""
