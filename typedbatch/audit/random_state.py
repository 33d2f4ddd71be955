"""The state of the global random generators."""

from __future__ import annotations

import random

import numpy as np
import torch


class RandomState:
    """The state of the global random generators of torch, numpy and Python when this is created."""

    def __init__(self) -> None:
        self._torch, self._numpy, self._python = torch.get_rng_state(), np.random.get_state(), random.getstate()

    def restore(self) -> None:
        """Set the generators back."""
        torch.set_rng_state(self._torch)
        np.random.set_state(self._numpy)
        random.setstate(self._python)
