"""Independent learners in a small gathering game."""
