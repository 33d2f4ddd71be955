"""What libraries call the same field, and :func:`rename` from one to the other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from typedbatch._names import POST_TRAINING, REINFORCEMENT_LEARNING
from typedbatch._tree.leaves import BATCH, describe, is_reserved, kind_of, new_tree
from typedbatch._tree.rows import require_tree
from typedbatch.batch import Batch
from typedbatch.errors import FieldNameError, SettingError, did_you_mean
from typedbatch.sample_batches.sample_batch import SampleBatch

if TYPE_CHECKING:
    from typedbatch.protocols import BatchProtocol

Convention = Literal["tianshou", "rllib", "gymnasium", "sb3", "torchrl"]
PostTraining = Literal["typedbatch", "verl", "trl", "openrlhf", "nemo_rl", "skyrl", "prime_rl", "slime", "areal"]

_COLUMNS: Final[tuple[Convention, ...]] = ("tianshou", "rllib", "gymnasium", "sb3", "torchrl")
_PROJECTS: Final[tuple[PostTraining, ...]] = (
    "typedbatch", "verl", "trl", "openrlhf", "nemo_rl", "skyrl", "prime_rl", "slime", "areal"
)  # fmt: skip
_MEANING: Final = {tuple(name.split(".")): row for row in REINFORCEMENT_LEARNING for name in row if name}

NAMES: Final[Mapping[Convention, tuple[str, ...]]] = {
    convention: tuple(row[i] for row in REINFORCEMENT_LEARNING if row[i]) for i, convention in enumerate(_COLUMNS)
}
"""The names that each library has for the fields that :func:`rename` knows; a dot is for a nested batch."""


@overload
def rename(batch: BatchProtocol, to: Literal["rllib"], source: None = ...) -> SampleBatch: ...
@overload
def rename(batch: BatchProtocol, to: Convention | PostTraining, source: PostTraining | None = ...) -> Batch: ...
def rename(batch: BatchProtocol, to: Convention | PostTraining, source: PostTraining | None = None) -> Batch:
    """The same fields under the names that another library has for them.

    Between libraries for reinforcement learning, none is asked for the names that the batch has: each known name means
    one thing in all of them. Names that are not known, or that the other library has no word for, stay. TorchRL's
    ``next`` is looked into, and made; the flags beside its ``next``, which are of the step before, are left out where
    ``next`` has its own.

    Between projects for post-training, ``source`` says whose names the batch has; ``"typedbatch"`` are those of
    ``typedbatch.posttraining``. It is about names alone: ``to_layout`` puts values at other places.

    Args:
        batch: any batch.
        to: ``"tianshou"``, ``"rllib"``, ``"gymnasium"``, ``"sb3"`` or ``"torchrl"``; for post-training
            ``"typedbatch"``, ``"verl"``, ``"trl"``, ``"openrlhf"``, ``"nemo_rl"``, ``"skyrl"``, ``"prime_rl"``,
            ``"slime"`` or ``"areal"``.
        source: for post-training, whose names the batch has; None for those of typedbatch.

    Returns:
        A new Batch, for RLlib a SampleBatch; arrays are shared. ``validate(batch, RolloutBatchProtocol)`` types it.

    Raises:
        FieldNameError: two fields would have one name, one would have a name that means something else there, or
            ``next`` is not a nested batch where TorchRL's has to be.
        SettingError: there are no such names.
    """
    tree = require_tree(batch, "rename()")
    known = (*_COLUMNS, *_PROJECTS)
    if to not in known:
        raise SettingError(f"rename() knows the names of {', '.join(known)}, not {to!r}{did_you_mean(str(to), known)}")
    if to not in _COLUMNS:
        return _renamed(((path, value, _word(path, to, source)) for path, value in _fields(tree)), Batch)
    if source is not None:
        raise SettingError(f"source= is for names of post-training, and {to!r} has those of reinforcement learning")
    column = _COLUMNS.index(to)
    words = ((path, value, _MEANING[path][column] if path in _MEANING else "") for path, value in _fields(tree))
    return _renamed(words, SampleBatch if to == "rllib" else Batch)


def _renamed(words: Iterable[tuple[tuple[str, ...], Any, str]], cls: type[Batch]) -> Batch:
    """A batch of values under new names, or under their own where there is no new one."""
    new: dict[tuple[str, ...], Any] = {}
    came_from: dict[tuple[str, ...], str] = {}
    for path, value, name in words:
        target = tuple(name.split(".")) if name else path
        if target in new:
            raise FieldNameError(
                f"{came_from[target]!r} and {'.'.join(path)!r} would both be {'.'.join(target)!r}; remove one of them"
            )
        new[target], came_from[target] = value, ".".join(path)
    renamed: Batch = new_tree(cls, _nested(new))
    return renamed


def _word(path: tuple[str, ...], to: Any, source: Any) -> str:
    """What a project for post-training calls a field of another; empty if it has no word for it.

    Raises:
        SettingError: there are no such names, or they are not said.
        FieldNameError: the name would stay, and means something else there.
    """
    if source is None and to == "typedbatch":
        raise SettingError(f"source= says whose names the batch has: {', '.join(_PROJECTS[1:])}")
    if source not in (None, *_PROJECTS):
        raise SettingError(
            f"source= is one of {', '.join(_PROJECTS)}, got {source!r}{did_you_mean(str(source), _PROJECTS)}"
        )
    name = ".".join(path)
    words, theirs = _words("typedbatch" if source is None else source, to)
    if not words.get(name) and name in theirs and theirs[name] != name:
        raise FieldNameError(
            f"{to} has no word for {name!r}, and calls {theirs[name]!r} so; remove it, or give it another name", name
        )
    return words.get(name, "")


@lru_cache(maxsize=128)
def _words(source: PostTraining, to: PostTraining) -> tuple[dict[str, str], dict[str, str]]:
    """From names of one project to those of another; and what each of the latter is called by typedbatch."""
    one, other = _PROJECTS.index(source), _PROJECTS.index(to)
    words = {row[one]: row[other] for row in POST_TRAINING if row[one]}
    return words, {row[other]: row[0] for row in POST_TRAINING if row[other]}


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
