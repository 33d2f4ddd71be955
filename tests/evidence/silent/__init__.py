"""Mistakes that run in silence, as pairs of a wrong and a right program, and what finds them."""
