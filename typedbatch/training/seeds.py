"""Random states of a training, saved so that a resumed training continues as it would have."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from typedbatch._tree.kinds import describe
from typedbatch.buffers.state import state_of
from typedbatch.errors import SettingError
from typedbatch.training.collector import Collector, require_seed


class Random:
    """The random states of a collector's environments, of a buffer and of torch.

    Args:
        collector: Collector whose environments are seeded, or None.
        buffer: Buffer that is sampled from, or None.
    """

    def __init__(self, collector: Collector[Any] | None, buffer: Any) -> None:
        self._collector = collector
        self._buffer = buffer

    def state(self, step: int) -> dict[str, Any]:
        """Return the random states. The environments are reset, with a seed derived from the last one and the step."""
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
        """Restore the random states.

        Raises:
            SettingError: ``state`` is not from :meth:`state`. Nothing was changed.
            EnvironmentFailedError: the environments have failed. No random state was changed.
        """
        if not isinstance(state, Mapping):
            raise SettingError(f"the state's 'random' must be a dict, got {describe(state)}")
        torch: Any = sys.modules.get("torch") if "torch" in state else None
        if self._collector is not None:
            require_seed(state.get("seed", ""))
        own: Any = None if self._buffer is None else state_of(self._buffer).rng.bit_generator
        trials: dict[str, Callable[[], object]] = {}  # on spare generators
        if own is not None:
            trials["buffer"] = lambda: setattr(type(own)(), "state", state["buffer"])
        if torch is not None:
            trials["torch"] = lambda: torch.Generator().set_state(state["torch"])
        for name, load in trials.items():
            try:
                load()
            except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, OverflowError) as error:
                raise SettingError(
                    f"the random state of {name!r} is not one that state_dict() returned: "
                    f"{type(error).__name__}: {error}"
                ) from error
        if self._collector is not None:
            self._collector.reset(state["seed"])
        if own is not None:
            own.state = state["buffer"]
        if torch is not None:
            torch.set_rng_state(state["torch"])
