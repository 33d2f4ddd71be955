"""How much more a Batch costs than loops over a dict of arrays, written by hand. ``python -m tests.benchmarks``."""
