"""The rings of a buffer as buffers of their own."""

from __future__ import annotations

from typing import Any

from typedbatch.buffers.replay import ReplayBuffer


def parts_of(buffer: ReplayBuffer[Any, Any]) -> list[ReplayBuffer[Any, Any]]:
    """Each ring as a buffer that shares its rows and its positions; the same ones each time."""
    if not buffer._parts:
        capacities = buffer._rings.capacity.tolist()
        buffer._parts = [ReplayBuffer[Any, Any](capacity, **buffer._options) for capacity in capacities]
        buffer._shared()
    return [*buffer._parts]
