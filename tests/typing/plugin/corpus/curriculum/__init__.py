"""A curriculum: tasks get harder as the learner succeeds."""
