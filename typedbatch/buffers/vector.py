"""``VectorReplayBuffer``: a ring for each of several environments, in one storage."""

from __future__ import annotations

from typing import Unpack

from typedbatch.buffers.options import BufferOptions, R, S
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.settings import count_of, ring_count
from typedbatch.buffers.state import State


def capacities(total_size: int, buffer_num: int) -> list[int]:
    """Return the capacities of ``buffer_num`` equal rings for ``total_size`` rows, rounded up.

    Raises:
        SizeError: An argument is not a whole number, or ``buffer_num`` is below 1 or above 2**20.
    """
    total_size, buffer_num = count_of(total_size, "total_size"), ring_count(buffer_num, "buffer_num")
    return [-(-total_size // buffer_num)] * buffer_num


class VectorReplayBuffer(ReplayBuffer[R, S]):
    """The last transitions of ``buffer_num`` environments, with a ring for each, so that episodes are contiguous.

    ``add`` takes a row for each environment, or for each of ``buffer_ids``, and writes all of them at once.

    Args:
        total_size: Number of transitions to store, of all environments; rounded up to a multiple of ``buffer_num``.
        buffer_num: Number of environments.
        **options: Options of :class:`ReplayBuffer`.
    """

    def __init__(self, total_size: int, buffer_num: int, **options: Unpack[BufferOptions]) -> None:
        self._begin(State(type(self), capacities(total_size, buffer_num), options, many=True))
