"""Implicit Q-learning on logged transitions."""
