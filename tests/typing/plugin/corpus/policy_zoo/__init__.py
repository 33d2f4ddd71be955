"""Policies with process_fn, forward and learn, after Tianshou."""
