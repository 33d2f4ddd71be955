"""What libraries call the same field, and :func:`rename` from one to the other."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from typedbatch._tree.leaves import BATCH, describe, is_reserved, kind_of, new_tree
from typedbatch._tree.rows import require_tree
from typedbatch.batch import Batch
from typedbatch.errors import FieldNameError, SettingError, did_you_mean, nearest
from typedbatch.sample_batches.sample_batch import SampleBatch

if TYPE_CHECKING:
    from typedbatch.protocols import BatchProtocol

Convention = Literal["tianshou", "rllib", "gymnasium", "sb3", "torchrl"]

_COLUMNS: Final[tuple[Convention, ...]] = ("tianshou", "rllib", "gymnasium", "sb3", "torchrl")
# One row for each meaning, in the order of _COLUMNS; an empty name where a library has none. Names with a dot are in a
# nested batch. Sources: tianshou/data/types.py; ray/rllib/core/columns.py; the signature of gymnasium's step();
# stable_baselines3/common/type_aliases.py; torchrl's collectors and value estimators.
_TABLE: Final = (
    ("obs", "obs", "obs", "observations", "observation"),
    ("obs_next", "new_obs", "next_obs", "next_observations", "next.observation"),
    ("act", "actions", "action", "actions", "action"),
    ("rew", "rewards", "reward", "rewards", "next.reward"),
    ("terminated", "terminateds", "terminated", "", "next.terminated"),
    ("truncated", "truncateds", "truncated", "", "next.truncated"),
    ("done", "dones", "done", "dones", "next.done"),
    ("info", "infos", "info", "infos", ""),
    ("returns", "value_targets", "", "returns", "value_target"),
    ("adv", "advantages", "", "advantages", "advantage"),
    ("v_s", "vf_preds", "", "old_values", "state_value"),
    ("logp_old", "action_logp", "", "old_log_prob", "action_log_prob"),
    ("logits", "action_dist_inputs", "", "", "logits"),
    ("weight", "weights", "", "", "priority_weight"),
)
# What programs call these fields beside, and fields that only Tianshou's types name: for hints, since what such a name
# means is likely and not certain. Older programs have done where others have terminated; verl has old_log_probs and
# values, torchrl sample_log_prob and _weight, CleanRL logprobs.
_ALSO: Final = {
    "obs": "states obs_t vector_obs",
    "obs_next": "new_observation next_observation next_state next_states obs_tp1",
    "act": "acts",
    "rew": "r",
    "terminated": "done dones terminal terminals terminations",
    "truncated": "truncations timeout timeouts time_outs",
    "returns": "return ret rets reward_to_go rewards_to_go",
    "adv": "advs",
    "v_s": "value values state_values baseline",
    "logp_old": "old_log_probs old_logprobs sample_log_prob behavior_logp log_probs_old logp",
    "log_prob": "logp log_probs logprobs logprob action_log_prob",
    "dist": "distribution action_dist",
    "state": "hidden_state hidden_states rnn_state state_in state_out",
    "weight": "is_weights importance_weights _weight",
    "hidden": "h hx",
    "cell": "c cx",
    "taus": "tau",
    "q_value": "q_values qvalues",
}
_MEANING: Final = {tuple(name.split(".")): row for row in _TABLE for name in row if name}

NAMES: Final[Mapping[Convention, tuple[str, ...]]] = {
    convention: tuple(row[i] for row in _TABLE if row[i]) for i, convention in enumerate(_COLUMNS)
}
"""The names that each library has for the fields that :func:`rename` knows; a dot is for a nested batch."""

_ROWS: Final = {row[0]: {name for name in row if name} for row in _TABLE}
_GROUPS: Final = [{name} | _ROWS.get(name, set()) | set(_ALSO.get(name, "").split()) for name in {**_ROWS, **_ALSO}]


@lru_cache(maxsize=1024)
def counterpart(name: str, names: tuple[str, ...]) -> str:
    """The one of ``names`` that most likely stands for ``name`` there: another library's word, or one spelt alike.

    Returns:
        Empty if none comes close.
    """
    for group in _GROUPS:
        if name in group:
            for other in names:
                if other in group:
                    return other
    return nearest(name, names)


@overload
def rename(batch: BatchProtocol, to: Literal["rllib"]) -> SampleBatch: ...
@overload
def rename(batch: BatchProtocol, to: Convention) -> Batch: ...
def rename(batch: BatchProtocol, to: Convention) -> Batch:
    """The same fields under the names that another library has for them.

    No library is asked for the names that the batch has: each known name means one thing in all of them. Names that are
    not known, or that the other library has no word for, stay. TorchRL's ``next`` is looked into, and made; the flags
    beside its ``next``, which are of the step before, are left out where ``next`` has its own.

    Args:
        batch: any batch.
        to: ``"tianshou"``, ``"rllib"``, ``"gymnasium"``, ``"sb3"`` or ``"torchrl"``.

    Returns:
        A new Batch, for RLlib a SampleBatch; arrays are shared. ``validate(batch, RolloutBatchProtocol)`` types it.

    Raises:
        FieldNameError: two fields would have one name, or ``next`` is not a nested batch where TorchRL's
            has to be.
        SettingError: there are no such names.
    """
    if to not in _COLUMNS:
        raise SettingError(
            f"rename() knows the names of {', '.join(_COLUMNS)}, not {to!r}{did_you_mean(str(to), _COLUMNS)}"
        )
    column = _COLUMNS.index(to)
    new: dict[tuple[str, ...], Any] = {}
    came_from: dict[tuple[str, ...], str] = {}
    for path, value in _fields(require_tree(batch, "rename()")):
        name = _MEANING[path][column] if path in _MEANING else ""
        target = tuple(name.split(".")) if name else path
        if target in new:
            raise FieldNameError(
                f"{came_from[target]!r} and {'.'.join(path)!r} would both be {'.'.join(target)!r}; remove one of them"
            )
        new[target], came_from[target] = value, ".".join(path)
    renamed: Batch = new_tree(SampleBatch if to == "rllib" else Batch, _nested(new))
    return renamed


def _fields(tree: Any) -> list[tuple[tuple[str, ...], Any]]:
    """The fields by their paths, those in TorchRL's ``next`` by two names."""
    inner = tree.__dict__.get("next")
    if kind_of(inner) is not BATCH or not inner.__dict__:
        return [((name,), value) for name, value in tree.__dict__.items()]
    fields: list[tuple[tuple[str, ...], Any]] = []
    for name, value in tree.__dict__.items():
        if name == "next":
            fields += [(("next", one), leaf) for one, leaf in inner.__dict__.items()]
        elif not (name in ("done", "terminated", "truncated") and name in inner.__dict__):
            fields.append(((name,), value))
    return fields


def _nested(values: dict[tuple[str, ...], Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    announced = new_tree(Batch, {})
    for path, value in values.items():
        if len(path) == 1:
            fields.setdefault(path[0], new_tree(Batch, {}) if is_reserved(value) else value)
        elif is_reserved(other := values.get(("next",), announced)):
            fields.setdefault("next", new_tree(Batch, {})).__dict__[path[1]] = value
        else:
            raise FieldNameError(f"'next' is {describe(other)}, which holds no {path[1]!r}; give it another name first")
    return fields
