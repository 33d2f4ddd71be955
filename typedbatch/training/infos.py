"""What environments say besides: the values of some names in their infos, with a row for each environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray
from numpy.typing import NDArray

from typedbatch._ops.construct import to_leaf
from typedbatch._spaces import named
from typedbatch._tree.leaves import ARRAY, KINDS, TENSOR, describe
from typedbatch.errors import SettingError, StructureError, under
from typedbatch.training.columns import zeros_of
from typedbatch.training.vector import copied
from typedbatch.training.widening import common_dtype

_OF_EPISODES = ("final_info", "final_obs")
"""What gymnasium adds of episodes that have ended."""


class Infos:
    """The values of some names. Where nothing is said they are zero, of the dtype of what is said elsewhere.

    Args:
        names: which.

    Raises:
        SettingError: they are not a list of text.
    """

    def __init__(self, names: Sequence[str]) -> None:
        if isinstance(names, str) or not all(isinstance(name, str) for name in names):
            raise SettingError(f"infos= is a list of names in the info, as ['lives'], got {names!r}")
        self.names: tuple[str, ...] = tuple(names)
        self._zeros: dict[str, Any] = {}
        """What there is where nothing is said, for each name that has come so far."""
        self._others: dict[str, None] = {}
        """Other names, as long as some have not come."""

    def of(
        self, info: Mapping[str, Any], other: Mapping[str, Any] | None = None, rows: NDArray[np.bool_] | None = None
    ) -> dict[str, Any]:
        """The values of each name that has come so far.

        Args:
            info: as a vector gives it.
            other: what counts instead for some environments, as far as a name is in it; None for none.
            rows: those environments.
        """
        self._learn(info)
        if other is not None:
            self._learn(other)
        out: dict[str, Any] = {}
        for name, zeros in self._zeros.items():
            with under(f"info.{name}"):
                value = _filled(info.get(name), zeros)
                if other is not None and name in other:
                    value = _put(value, _filled(other[name], zeros), rows)
            out[name] = value
        return out

    def _learn(self, info: Mapping[str, Any]) -> None:
        for name in self.names:
            if name in info and (name not in self._zeros or type(info[name]) is not ndarray):
                self._zeros[name] = _zeros(named(info[name]), self._zeros.get(name))
        if len(self._zeros) < len(self.names):
            names = [name for name in info if name not in self.names and name not in _OF_EPISODES]
            self._others |= dict.fromkeys(name for name in names if name[:1] != "_")

    def require(self) -> None:
        """Raise an error unless each name has come.

        Raises:
            SettingError: one has not.
        """
        if missing := [name for name in self.names if name not in self._zeros]:
            said = ", ".join([*self._zeros, *self._others]) or "nothing"
            raise SettingError(
                f"infos= asks for {missing[0]!r}, an episode has ended, and no environment has said it; they say {said}"
            )


def _zeros(value: Any, before: Any) -> Any:
    if isinstance(value, dict):
        before = before if isinstance(before, dict) else {}
        return before | {name: _zeros(part, before.get(name)) for name, part in value.items()}
    if before is not None:
        return before
    leaf = to_leaf(value)
    return zeros_of(leaf, leaf.shape) if KINDS[type(leaf)] in (ARRAY, TENSOR) else leaf


def _filled(value: Any, zeros: Any) -> Any:
    """A value, with zeros of its own for what is not in it."""
    if isinstance(zeros, dict) and (value is None or isinstance(value, Mapping)):
        given = {} if value is None else value
        return {name: _filled(given.get(name), part) for name, part in zeros.items()}
    return copied(zeros) if value is None else value


def _put(value: Any, other: Any, rows: Any) -> Any:
    """A value, with that of another one in some rows, in a dtype that holds both.

    Raises:
        StructureError: they are of other shapes, or one is a dict and the other one is not.
        LeafError: no dtype holds both.
    """
    if isinstance(value, dict) and isinstance(other, dict):
        out: dict[str, Any] = {}
        for name, part in value.items():
            with under(name):
                out[name] = _put(part, other[name], rows)
        return out
    return _put_leaf(value, other, rows)


def _put_leaf(value: Any, other: Any, rows: Any) -> Any:
    kind = KINDS[type(value)]
    if kind not in (ARRAY, TENSOR) or kind is not KINDS[type(other)] or value.shape != other.shape:
        raise StructureError(
            f"environments that go on say {describe(value)}, those whose episode has ended {describe(other)}"
        )
    dtype = common_dtype(value, other)
    if dtype == value.dtype:
        put = copied(value)
    else:
        put = value.to(dtype) if kind is TENSOR else value.astype(dtype)
    put[rows] = other[rows]
    return put
