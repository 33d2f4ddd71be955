"""Roles of fields: declared by ``Annotated[..., Role.ADVANTAGE]`` or given to an audit; else by their names."""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, get_args, get_origin

from typedbatch._core.kinds import BATCH, kind_of
from typedbatch._markers import Role
from typedbatch.batch import Batch
from typedbatch.errors import SettingError, TypedBatchError
from typedbatch.schema import schema_of

NAMES: Final[dict[Role, tuple[str, ...]]] = {
    Role.OBS: ("obs",),
    Role.NEXT_OBS: ("obs_next", "next_obs"),
    Role.ACTION: ("act",),
    Role.REWARD: ("rew", "rewards", "reward"),
    Role.SCORE: ("scores", "score"),
    Role.TERMINATED: ("terminated",),
    Role.TRUNCATED: ("truncated",),
    Role.RETURN: ("returns", "ret", "return_", "value_targets"),
    Role.ADVANTAGE: ("adv", "advantages", "advantage", "advs"),
    Role.OLD_LOGP: ("logp_old", "old_logp", "old_log_probs", "old_logprobs"),
    Role.ROLLOUT_LOGP: ("rollout_logp", "rollout_log_probs", "sampler_logp", "behavior_logp"),
    Role.REF_LOGP: ("ref_logp", "ref_log_prob"),
    Role.WEIGHT: ("weight",),
    Role.GROUP: ("uid",),
    Role.LOSS_MASK: ("loss_mask",),
    Role.RESPONSE_MASK: ("response_mask",),
    Role.RESPONSE_IDS: ("response_ids",),
}
"""Names by which fields without a declared role are known, and which the checks use for those that have one."""


def unwrapped(function: Any) -> Any:
    """Return the function of a method, behind its decorators."""
    return inspect.unwrap(getattr(function, "__func__", function))


class Roles:
    """The names by which checks know the fields of batches.

    Args:
        given: Roles of fields by their names.

    Raises:
        SettingError: A value is not the name of a :class:`~typedbatch.Role`.
    """

    def __init__(self, given: Mapping[str, Role | str] | None = None) -> None:
        self._known: dict[str, str] = {}
        self._actual: dict[str, str] = {}
        self._classes: set[Any] = set()
        for name, role in (given or {}).items():
            if role not in [*Role, *(one.value for one in Role)]:
                known = ", ".join(one.value for one in Role)
                raise SettingError(f"roles takes one of {known}, got {role!r} for {name!r}")
            self._add(name, Role(role))

    def learn(self, hint: Any) -> None:
        """Add the roles that a record or protocol declares; anything else has none."""
        try:
            if hint in self._classes:
                return
            self._classes.add(hint)
            fields = schema_of(hint).fields
        except (TypeError, TypedBatchError):
            return
        for field in fields:
            if field.role is not None:
                self._add(field.name, field.role)

    def learn_call(self, function: Callable[..., Any], args: Iterable[Any]) -> None:
        """Add the roles that the annotations of a function's parameters declare, and the classes of its batches."""
        for value in args:
            if kind_of(value) is BATCH:
                self.learn(type(value))
        try:
            hints = inspect.get_annotations(unwrapped(function), eval_str=True)
        except Exception:  # noqa: BLE001  # an annotation may name what is not there at run time
            return
        for hint in hints.values():
            for one in (hint, *get_args(hint)) if get_origin(hint) is not None else (hint,):
                self.learn(one)

    def name(self, path: str) -> str:
        """Return the name by which checks know a field: ``"adv"`` for ``"pg_adv"`` with the role of an advantage."""
        if not self._known:
            return path
        head, dot, rest = path.partition(".")
        if head in self._actual and head not in self._known:  # Another field has the role, and with it the name.
            role = next(role for role, names in NAMES.items() if head in names)
            self._add(head, role)
        return f"{self._known.get(head, head)}{dot}{rest}"

    def actual(self, name: str) -> str:
        """Return the name that a field has in the user's batch."""
        return self._actual.get(name, name)

    def actual_names(self, names: Iterable[str]) -> set[str]:
        """Return the names that fields have in the user's batch."""
        return {self.actual(name) for name in names}

    def shown(self, text: str) -> str:
        """Return a text with the names that fields have in the user's batch."""
        if not self._actual:
            return text
        return re.sub(r"(?<![\w\[])[a-z]\w*", lambda found: self.actual(found[0]), text)

    def fields(self, batch: Any) -> Mapping[str, Any]:
        """Return the fields of a batch by the names by which checks know them."""
        fields: dict[str, Any] = object.__getattribute__(batch, "__dict__")
        return {self.name(name): value for name, value in fields.items()} if self._known else fields

    def changed(self, batch: Any, fields: Mapping[str, Any]) -> Any:
        """Return a copy of a batch with other values in some fields."""
        changed = copy.deepcopy(batch)
        for name, value in fields.items():
            Batch.__setitem__(changed, self.actual(name), value)
        return changed

    def _add(self, name: str, role: Role) -> None:
        names = NAMES[role]
        if name in self._known or (name in names and name not in self._actual):
            return
        known = next((one for one in names if one not in self._actual and one != name), f"_{name}")
        self._known[name], self._actual[known] = known, name
