"""Learners put together from mixins; each one adds its fields in process()."""
