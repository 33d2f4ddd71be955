"""Behaviour cloning for an arm with several sensors."""
