"""``VectorReplayBuffer``: a ring for each of several environments, in one storage."""

from __future__ import annotations

from typing import Unpack

from typedbatch.buffers.options import BufferOptions, R, S
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.settings import count_of, ring_count
from typedbatch.buffers.state import State


def capacities(total_size: int, buffer_num: int) -> list[int]:
    """As many equal rings, with room for ``total_size`` rows, or a little more if that does not divide.

    Raises:
        SizeError: no rings, more than a million, or no whole numbers.
    """
    total_size, buffer_num = count_of(total_size, "total_size"), ring_count(buffer_num, "buffer_num")
    return [-(-total_size // buffer_num)] * buffer_num


class VectorReplayBuffer(ReplayBuffer[R, S]):
    """The last transitions of ``buffer_num`` environments, each in a ring of its own, so that they stay in order.

    ``add`` takes a row for each environment, or for each of ``buffer_ids``, and writes all of them at once.

    Args:
        total_size: transitions to keep, of all environments; rounded up to a multiple of ``buffer_num``.
        buffer_num: environments.
        **options: as for :class:`ReplayBuffer`.
    """

    def __init__(self, total_size: int, buffer_num: int, **options: Unpack[BufferOptions]) -> None:
        self._begin(State(type(self), capacities(total_size, buffer_num), options, many=True))
