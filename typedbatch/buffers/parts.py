"""A ring of a buffer as a buffer of its own."""

from __future__ import annotations

from typing import Any

from typedbatch.buffers.columns import slice_of
from typedbatch.buffers.replay import ReplayBuffer


def share(buffer: ReplayBuffer[Any, Any], ring: int, part: ReplayBuffer[Any, Any]) -> None:
    """Make the rows and the positions of one ring those of ``part``."""
    start, stop = buffer._rings.edges[ring : ring + 2].tolist()
    part._columns = slice_of(buffer._columns, start, stop)
    part._rings = buffer._rings.part(ring)
    part._whole = buffer
    part._shared()


def parts_of(buffer: ReplayBuffer[Any, Any]) -> list[ReplayBuffer[Any, Any]]:
    """Each ring as a buffer."""
    parts = [ReplayBuffer[Any, Any](capacity, **buffer._options) for capacity in buffer._rings.capacity.tolist()]
    for ring, part in enumerate(parts):
        share(buffer, ring, part)
        part._declared = buffer._declaration()
    return parts
