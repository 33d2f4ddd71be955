"""Contextual bandits, from before anyone annotated anything."""
