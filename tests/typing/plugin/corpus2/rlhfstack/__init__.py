"""Supervised start, reward model, policy update: the three stages on toy sequences."""
