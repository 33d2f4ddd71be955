"""A fork of somebody's soft actor-critic, with our flags."""
