"""The random numbers that belong to a training, so that one that is resumed goes on as it would have."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from typedbatch.buffers.state import state_of
from typedbatch.training.collector import Collector


class Random:
    """Random numbers of a collector's environments, of a buffer, of torch.

    Args:
        collector: whose environments are random; None for none.
        buffer: what is sampled from; None for none.
    """

    def __init__(self, collector: Collector[Any] | None, buffer: Any) -> None:
        self._collector = collector
        self._buffer = buffer

    def state(self, step: int) -> dict[str, Any]:
        """Where they are. The environments begin anew, with a seed that follows from that of before and the step."""
        out: dict[str, Any] = {}
        if self._collector is not None:
            before = self._collector.seed or 0
            out["seed"] = int(np.random.default_rng([before, step]).integers(2**31))
            self._collector.reset(out["seed"])
        if self._buffer is not None:
            out["buffer"] = state_of(self._buffer).rng.bit_generator.state
        if (torch := sys.modules.get("torch")) is not None:
            out["torch"] = torch.get_rng_state()
        return out

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from there.

        Raises:
            KeyError: something is not in the state.
        """
        if self._collector is not None:
            self._collector.reset(int(state["seed"]))
        if self._buffer is not None:
            state_of(self._buffer).rng.bit_generator.state = state["buffer"]
        torch: Any = sys.modules.get("torch")
        if torch is not None and "torch" in state:
            torch.set_rng_state(state["torch"])
