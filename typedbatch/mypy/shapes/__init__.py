"""Shapes, ranks and dtypes of arrays, as far as declarations and operations tell them."""
