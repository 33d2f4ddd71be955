"""The random numbers that belong to a training, so that one that is resumed goes on as it would have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from typedbatch._tree.leaves import describe
from typedbatch.buffers.state import state_of
from typedbatch.errors import SettingError
from typedbatch.training.collector import Collector, require_seed


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

    def load(self, state: Any) -> None:
        """Go on from there.

        Raises:
            SettingError: it is not what :meth:`state` gave. Nothing was changed.
            EnvironmentFailedError: the environments have failed. No random numbers were changed.
        """
        if not isinstance(state, Mapping):
            raise SettingError(f"the state's 'random' is a dict, got {describe(state)}")
        torch: Any = sys.modules.get("torch") if "torch" in state else None
        if self._collector is not None:
            require_seed(state.get("seed", ""))
        own: Any = None if self._buffer is None else state_of(self._buffer).rng.bit_generator
        if own is not None:
            _require(lambda: setattr(type(own)(), "state", state["buffer"]), "buffer")
        if torch is not None:
            _require(lambda: torch.Generator().set_state(state["torch"]), "torch")
        if self._collector is not None:
            self._collector.reset(state["seed"])
        if own is not None:
            own.state = state["buffer"]
        if torch is not None:
            torch.set_rng_state(state["torch"])


def _require(load: Callable[[], object], name: str) -> None:
    """Raise an error unless random numbers can be loaded, which is tried on others.

    Raises:
        SettingError: they cannot.
    """
    try:
        load()
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
        raise SettingError(
            f"the random numbers of {name!r} are not what state_dict() gave: {type(error).__name__}: {error}"
        ) from error
