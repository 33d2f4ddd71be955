"""Bugs that users of post-training projects reported, as small programs: with dicts, and with typedbatch."""
