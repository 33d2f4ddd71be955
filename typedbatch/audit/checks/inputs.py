"""Checks of what a network is given: obs and obs_next in the same way, and observations that differ."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch.audit.places import here
from typedbatch.audit.roles import NEXT_OBS, OBS
from typedbatch.audit.tags import Tag
from typedbatch.audit.trace import Check, Operation, Trace

_FEWEST = 16


class Inputs(Check):
    """The way from a field to a network: ``obs`` and ``obs_next`` are transformed alike."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._paths: dict[str, dict[tuple[str, ...], tuple[str, str]]] = {"obs": {}, "obs_next": {}}

    @override
    def operation(self, operation: Operation) -> None:
        first = operation.tags[0]
        if first.models or not first.fields or not any(tag.models and not tag.fields for tag in operation.tags[1:]):
            return
        for name, roles in (("obs", OBS), ("obs_next", NEXT_OBS)):
            if all(field.name.split(".")[0] in roles | {"act"} for field in first.fields) and first.has_any(roles):
                models = frozenset().union(*(tag.models for tag in operation.tags[1:]))
                self._paths[name].setdefault((*first.path, "->", operation.name), (here(), ", ".join(sorted(models))))

    @override
    def end(self) -> None:
        now, after = self._paths["obs"], self._paths["obs_next"]
        if not now or not after or set(now) & set(after):
            return
        (path, (_, _)), (other, (place, network)) = next(iter(now.items())), next(iter(after.items()))
        if path[-1] != other[-1]:
            return
        self.trace.found(
            "TB503 other-rows",
            f"{network} takes {_shown('obs_next', other)}, but obs goes through {_shown('obs', path)}",
            place=place,
        )


def _shown(name: str, path: tuple[str, ...]) -> str:
    return f"{name} {'after ' + ', '.join(path[:-2]) if path[:-2] else 'as it is'}"


class Observations(Check):
    """The observations of a rollout: as many different ones as there are next observations."""

    def __init__(self, trace: Trace) -> None:
        super().__init__(trace)
        self._seen: set[int] = set()

    @override
    def read(self, batch: Any, name: str, value: Any, tag: Tag | None) -> None:
        if name not in OBS or (tag is not None and (tag.rows is None or tag.rows.origin in self._seen)):
            return
        if tag is not None and tag.rows is not None:
            self._seen.add(tag.rows.origin)
        fields = object.__getattribute__(batch, "__dict__")
        other = fields.get("obs_next")
        self._find_constant(value)
        if not isinstance(value, (Tensor, np.ndarray)) or not isinstance(other, (Tensor, np.ndarray)):
            return
        if getattr(other, "shape", None) != value.shape or value.ndim < 2 or len(value) < _FEWEST:
            return
        with torch.no_grad():
            now, after = _rows_of(value), _rows_of(other)
        if 2 * len(set(now)) < len(set(after)):
            text = f"obs has {len(set(now))} different rows of {len(value)}, but obs_next has {len(set(after))}"
            self.trace.found("TB510 suspect-values", f"{text}; is obs kept up to date?")
        truncated = fields.get("truncated")
        if truncated is not None and truncated.shape == (len(now),) and truncated.any():
            self._find_reset(now, after, np.flatnonzero(np.asarray(leaf_to_numpy(truncated))))

    def _find_reset(self, now: list[bytes], after: list[bytes], cut: NDArray[np.intp]) -> None:
        """Note truncated rows whose next observation is the first one of the next episode."""
        index = {row: number for number, row in enumerate(now)}
        apart = Counter(index[row] - number for number, row in enumerate(after) if row in index)
        by, count = apart.most_common(1)[0] if apart else (0, 0)
        if by <= 0 or 2 * count < len(now):
            return  # The rows are in no order of time.
        same = [number for number in cut if number + by < len(now) and after[number] == now[number + by]]
        if same and len(same) == sum(number + by < len(now) for number in cut):
            text = f"obs_next of {len(same)} truncated rows is obs of the step after, the first one of the next episode"
            self.trace.found("TB510 suspect-values", f"{text}; is it final_obs?", is_certain=False)

    def _find_constant(self, value: Any) -> None:
        if not isinstance(value, (Tensor, np.ndarray)) or value.ndim < 2 or len(value) < _FEWEST // 2:
            return
        with torch.no_grad():
            if _is_constant(value):
                text = f"obs is the same at all {len(value)} steps; is one array stored again and again?"
                self.trace.found("TB510 suspect-values", text, is_certain=False)


def _is_constant(value: Any) -> bool:
    """Return True if all steps are the same, and not of integers, of which a constant observation may be."""
    array = np.asarray(leaf_to_numpy(value))
    return bool(array.dtype.kind == "f" and (array == array[:1]).all() and (array % 1 != 0).any())


def _rows_of(value: Any) -> list[bytes]:
    return [row.tobytes() for row in np.asarray(leaf_to_numpy(value))]
