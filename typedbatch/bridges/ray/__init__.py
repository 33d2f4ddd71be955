"""Collectors in other processes, typed remote functions and actors, and Ray Data. Needs the extra ``ray``."""

from typedbatch.bridges.ray.collectors import RayCollectors, Weights
from typedbatch.bridges.ray.data import from_batches, map_batches
from typedbatch.bridges.ray.remote import Actor, Remote, get, remote, value_of

__all__ = ["Actor", "RayCollectors", "Remote", "Weights", "from_batches", "get", "map_batches", "remote", "value_of"]
