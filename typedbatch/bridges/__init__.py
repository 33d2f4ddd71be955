"""Conversion between batches and the types of other libraries.

There is one module for each library, and only that module imports it. Memory is shared wherever both sides can hold it;
docs/bridges.md lists the exceptions.
"""
