"""Names of the same field in different libraries, and :func:`rename` from one to another."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, get_args, overload

from typedbatch._core.kinds import BATCH, describe, is_placeholder, kind_of, new_tree
from typedbatch._core.lengths import require_tree
from typedbatch._names import POST_TRAINING, REINFORCEMENT_LEARNING
from typedbatch.batch import Batch
from typedbatch.errors import FieldNameError, SettingError, did_you_mean

if TYPE_CHECKING:
    from typedbatch.protocols import BatchProtocol
    from typedbatch.sample_batches.sample_batch import SampleBatch

Convention = Literal["tianshou", "rllib", "gymnasium", "sb3", "torchrl"]
PostTraining = Literal["typedbatch", "verl", "trl", "openrlhf", "nemo_rl", "skyrl", "prime_rl", "slime", "areal"]

_COLUMNS: Final[tuple[Convention, ...]] = get_args(Convention)
_PROJECTS: Final[tuple[PostTraining, ...]] = get_args(PostTraining)
_MEANING: Final = {tuple(name.split(".")): row for row in REINFORCEMENT_LEARNING for name in row if name}

NAMES: Final[Mapping[Convention, tuple[str, ...]]] = {
    convention: tuple(row[i] for row in REINFORCEMENT_LEARNING if row[i]) for i, convention in enumerate(_COLUMNS)
}
"""Names in each library of the fields that :func:`rename` knows; a dot is for a nested batch."""


@overload
def rename(batch: BatchProtocol, to: Literal["rllib"], source: None = ...) -> SampleBatch: ...
@overload
def rename(batch: BatchProtocol, to: Convention | PostTraining, source: PostTraining | None = ...) -> Batch: ...
def rename(batch: BatchProtocol, to: Convention | PostTraining, source: PostTraining | None = None) -> Batch:
    """Return the same fields under the names of another library.

    Between libraries for reinforcement learning, the current names are recognized, since each known name has the same
    meaning in all of them. Unknown names, and those without a counterpart in the other library, stay. TorchRL's
    ``next`` is read and created. The flags outside of its ``next``, which belong to the step before, are left out if
    ``next`` has its own.

    Between projects for post-training, ``source`` is the project whose names the batch has; ``"typedbatch"`` stands for
    ``typedbatch.posttraining``. Only names change; ``to_layout`` moves values.

    Args:
        batch: Any batch.
        to: ``"tianshou"``, ``"rllib"``, ``"gymnasium"``, ``"sb3"`` or ``"torchrl"``; for post-training
            ``"typedbatch"``, ``"verl"``, ``"trl"``, ``"openrlhf"``, ``"nemo_rl"``, ``"skyrl"``, ``"prime_rl"``,
            ``"slime"`` or ``"areal"``.
        source: Project for post-training whose names the batch has; None for those of typedbatch.

    Returns:
        A new Batch, for RLlib a SampleBatch; arrays are shared. ``validate(batch, RolloutBatchProtocol)`` types it.

    Raises:
        FieldNameError: Two fields would get the same name, the name of a field means something else in the other
            project, or there is a field ``next`` that is not a nested batch, as TorchRL needs it.
        SettingError: ``to`` or ``source`` is not one of these, or ``source`` is missing where it is needed.
    """
    tree = require_tree(batch, "rename()")
    known = (*_COLUMNS, *_PROJECTS)
    if to not in known:
        raise SettingError(f"to= must be one of {', '.join(known)}, got {to!r}{did_you_mean(str(to), known)}")
    if to not in _COLUMNS:
        if source is None and to == "typedbatch":
            raise SettingError(f"source= must name the project whose names the batch has: {', '.join(_PROJECTS[1:])}")
        if source not in (None, *_PROJECTS):
            raise SettingError(
                f"source= must be one of {', '.join(_PROJECTS)}, got {source!r}{did_you_mean(str(source), _PROJECTS)}"
            )
        return _renamed(((path, value, _word(path, to, source)) for path, value in _fields(tree)), Batch)
    if source is not None:
        raise SettingError(f"source= is for names of post-training, and {to!r} has those of reinforcement learning")
    column = _COLUMNS.index(to)
    words = ((path, value, _MEANING[path][column] if path in _MEANING else "") for path, value in _fields(tree))
    if to == "rllib":
        from typedbatch.sample_batches.sample_batch import SampleBatch

        return _renamed(words, SampleBatch)
    return _renamed(words, Batch)


def _renamed(words: Iterable[tuple[tuple[str, ...], Any, str]], cls: type[Batch]) -> Batch:
    """Return a batch of values under their new names, or under their old ones if they have no new one."""
    new: dict[tuple[str, ...], Any] = {}
    came_from: dict[tuple[str, ...], str] = {}
    for path, value, name in words:
        target = tuple(name.split(".")) if name else path
        if target in new:
            raise FieldNameError(
                f"{came_from[target]!r} and {'.'.join(path)!r} would both be {'.'.join(target)!r}; remove one of them"
            )
        new[target], came_from[target] = value, ".".join(path)
    fields: dict[str, Any] = {}
    reserved = new_tree(Batch, {})
    for path, value in new.items():
        if len(path) == 1:
            fields.setdefault(path[0], new_tree(Batch, {}) if is_placeholder(value) else value)
        elif is_placeholder(other := new.get(("next",), reserved)):
            fields.setdefault("next", new_tree(Batch, {})).__dict__[path[1]] = value
        else:
            text = f"'next' must be a nested batch with {path[1]!r} for TorchRL, got {describe(other)}; rename it first"
            raise FieldNameError(text)
    renamed: Batch = new_tree(cls, fields)
    return renamed


def _word(path: tuple[str, ...], to: Any, source: Any) -> str:
    """Return the name that a project for post-training has for a field of another, or an empty string if it has none.

    Raises:
        FieldNameError: The field would keep its name, which means something else in the other project.
    """
    name = ".".join(path)
    words, theirs = _words("typedbatch" if source is None else source, to)
    if not words.get(name) and name in theirs and theirs[name] != name:
        text = f"{to} has no such field, and uses the name {name!r} for {theirs[name]!r}; remove or rename the field"
        raise FieldNameError(text, name)
    return words.get(name, "")


@lru_cache(maxsize=128)
def _words(source: PostTraining, to: PostTraining) -> tuple[dict[str, str], dict[str, str]]:
    """Return the names of one project with those of another, and the names of the other with those of typedbatch."""
    old, new = _PROJECTS.index(source), _PROJECTS.index(to)
    words = {row[old]: row[new] for row in POST_TRAINING if row[old]}
    return words, {row[new]: row[0] for row in POST_TRAINING if row[new]}


def _fields(tree: Any) -> list[tuple[tuple[str, ...], Any]]:
    """Return the paths and values of all fields; those in TorchRL's ``next`` have a path of two names."""
    inner = tree.__dict__.get("next")
    if kind_of(inner) is not BATCH or not inner.__dict__:
        return [((name,), value) for name, value in tree.__dict__.items()]
    fields: list[tuple[tuple[str, ...], Any]] = []
    for name, value in tree.__dict__.items():
        if name == "next":
            fields += [(("next", inner_name), leaf) for inner_name, leaf in inner.__dict__.items()]
        elif not (name in ("done", "terminated", "truncated") and name in inner.__dict__):
            fields.append(((name,), value))
    return fields
