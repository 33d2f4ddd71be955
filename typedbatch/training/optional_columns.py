"""Optional columns of rollouts: the environment and the step of each row, and the state that the policy got."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, get_origin

from typedbatch._tree.kinds import describe
from typedbatch.errors import SettingError, did_you_mean
from typedbatch.records import RolloutBatch

OPTIONAL: Final = ("env_id", "t", "state_in")
"""Names of the columns that a subclass of ``RolloutBatch`` may declare."""


class RolloutClass(NamedTuple):
    """The class of a collector's rollouts, with the optional columns that it declares."""

    cls: type[RolloutBatch[Any, Any, Any]]
    optional: tuple[str, ...]


def rollout_class(rollout: Any, *, recurrent: bool) -> RolloutClass:
    """Return a class of rollouts with its optional columns, after checking it.

    Args:
        rollout: ``RolloutBatch`` or a subclass, with or without type arguments.
        recurrent: Whether the policy has a state.

    Raises:
        SettingError: it is not such a class, or declares a column that a collector does not have.
    """
    cls = get_origin(rollout) or rollout
    if not (isinstance(cls, type) and issubclass(cls, RolloutBatch)):
        got = cls.__name__ if isinstance(cls, type) else describe(cls)
        raise SettingError(f"rollout= must be a subclass of RolloutBatch, got {got}")
    declared = [name for name in cls.__record_fields__ if name not in RolloutBatch.__record_fields__]
    for name in declared:
        if name not in OPTIONAL:
            raise SettingError(
                f"rollout= declares {cls.__name__}.{name}, but a collector adds only {', '.join(OPTIONAL)}"
                f"{did_you_mean(name, OPTIONAL)}; let record= add other fields"
            )
    if "state_in" in declared and not recurrent:
        raise SettingError(
            f"rollout= declares {cls.__name__}.state_in, but the policy has no state; pass its initial state as state="
        )
    return RolloutClass(cls, tuple(declared))
