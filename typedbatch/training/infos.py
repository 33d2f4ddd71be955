"""Infos: the values of selected names in the infos of environments, with a row for each environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._core.kinds import ARRAY, KINDS, MAPPING, TENSOR, blank, describe
from typedbatch._ops.construct import to_leaf
from typedbatch._space_values import copied, named
from typedbatch.errors import SettingError, StructureError, under
from typedbatch.training.step_columns import common_dtype


class Infos:
    """The values of selected names. If an environment does not report a name, its value is zero, of the same dtype."""

    def __init__(self, names: Sequence[str]) -> None:
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise SettingError(f"infos= must be a list of names in the info, as ['lives'], got {names!r}")
        self.names: tuple[str, ...] = tuple(names)
        self._zeros: dict[str, Any] = {}
        """The value of an environment that does not report a name, for each name that was reported so far."""
        self._other_names: dict[str, None] = {}
        """The other names in infos, for an error text. They are collected until all selected names were reported."""
        self._first: tuple[Mapping[str, Any], NDArray[np.bool_]] | None = None
        """Info of the reset of environments whose next step is the first of an episode, and their mask."""

    def begin(self, info: Mapping[str, Any], begins: NDArray[np.bool_] | None) -> None:
        """Note the info of a reset of some environments, which belongs to the rows of the next step."""
        names = info.keys() & {*self.names, *(f"_{name}" for name in self.names)}
        self._first = None if begins is None else ({name: copied(info[name]) for name in names}, begins)

    def of_step(
        self, info: Mapping[str, Any], last: Mapping[str, Any] | None, ended: NDArray[np.bool_] | None
    ) -> dict[str, Any]:
        """Return the values of a step's rows; in the first of an episode, also what only the reset has reported."""
        out = self.of(info, last, ended)
        if self._first is not None:
            steps = [(info, True)] if last is None else [(info, ~np.asarray(ended)), (last, ended)]
            with under("info"):
                _add_first(out, *self._first, steps, self._zeros)
        return out

    def of(
        self, info: Mapping[str, Any], other: Mapping[str, Any] | None = None, rows: NDArray[np.bool_] | None = None
    ) -> dict[str, Any]:
        """Return the values of each name that was reported so far; for some rows, those in another info."""
        self._learn(info)
        if other is not None:
            self._learn(other)
        out: dict[str, Any] = {}
        for name, zeros in self._zeros.items():
            with under(f"info.{name}"):
                value = _filled(info.get(name), zeros)
                if other is not None and (name in info or name in other):
                    value = _put(value, _filled(other.get(name), zeros), rows)
            out[name] = value
        return out

    def _learn(self, info: Mapping[str, Any]) -> None:
        for name in self.names:
            if name in info and (name not in self._zeros or type(info[name]) is not ndarray):
                self._zeros[name] = _zeros(named(info[name]), self._zeros.get(name))
        if len(self._zeros) < len(self.names):
            # gymnasium adds the two for episodes that have ended
            names = [name for name in info if name not in (*self.names, "final_info", "final_obs")]
            self._other_names |= dict.fromkeys(name for name in names if name[:1] != "_")

    def require(self) -> None:
        """Raise a SettingError unless each name was reported by an environment."""
        if missing := [name for name in self.names if name not in self._zeros]:
            reported = ", ".join([*self._zeros, *self._other_names]) or "nothing"
            raise SettingError(
                f"infos= names {missing[0]!r}, which no environment has reported in a whole episode; "
                f"they report {reported}"
            )


def _reported(info: Mapping[str, Any], name: str) -> Any:
    """Return a mask of the environments that have reported a name."""
    return np.asarray(info.get(f"_{name}", name in info))


def _add_first(out: dict[str, Any], first: Mapping[str, Any], begins: Any, steps: Any, zeros: dict[str, Any]) -> None:
    """Put into ``out`` the parts of the info of a reset that no step has reported; each info comes with a mask."""
    for name in [name for name in out if name in first]:
        rows = begins & _reported(first, name)
        if isinstance(out[name], dict) and isinstance(first[name], Mapping):
            inner = [(info[name], mask & _reported(info, name)) for info, mask in steps if name in info]
            with under(name):
                _add_first(out[name], first[name], rows, inner, zeros[name])
            continue
        for info, mask in steps:
            rows = rows & ~(mask & _reported(info, name))
        if rows.any():
            with under(name):
                out[name] = _put(out[name], _filled(first[name], zeros[name]), rows)


def _zeros(value: Any, before: Any) -> Any:
    if isinstance(value, dict):
        before = before if isinstance(before, dict) else {}
        return before | {name: _zeros(part, before.get(name)) for name, part in value.items()}
    if before is not None:
        return before
    leaf = to_leaf(value)
    return blank(leaf, leaf.shape) if KINDS[type(leaf)] in (ARRAY, TENSOR) else leaf


def _filled(value: Any, zeros: Any) -> Any:
    """Return a value, with new zeros for the parts that it lacks."""
    if isinstance(zeros, dict) and (value is None or isinstance(value, Mapping)):
        given = {} if value is None else value
        return {name: _filled(given.get(name), part) for name, part in zeros.items()}
    return copied(zeros) if value is None else value


def _put(value: Any, other: Any, rows: Any) -> Any:
    """Return a copy of a value with some rows of another, in a dtype that holds both."""
    kind = KINDS[type(value)]
    if kind is MAPPING and KINDS[type(other)] is MAPPING:
        out: dict[str, Any] = {}
        for name, part in value.items():
            with under(name):
                out[name] = _put(part, other[name], rows)
        return out
    if kind not in (ARRAY, TENSOR) or kind is not KINDS[type(other)] or value.shape != other.shape:
        raise StructureError(
            f"the info of all environments must have the same shape, got {describe(value)} from those that go on and "
            f"{describe(other)} from those whose episode has ended"
        )
    dtype = common_dtype(value, other)
    put = copied(value) if dtype == value.dtype else value.to(dtype) if kind is TENSOR else value.astype(dtype)
    put[rows] = other[rows]
    return put
