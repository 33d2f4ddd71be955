"""Conversion of Minari's episodes and datasets to rollouts and back. Needs the extra ``minari``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import minari
import numpy as np
from minari import EpisodeData, MinariDataset
from minari.data_collector import EpisodeBuffer

from typedbatch._core.kinds import ARRAY, BATCH, describe, is_placeholder, kind_of
from typedbatch._core.lengths import count_rows, equal_rows, leaves, require_bounded
from typedbatch._ops.padding import after_zeros
from typedbatch._space_values import nested, unnested
from typedbatch.batch import Batch
from typedbatch.episodes import split_by_episode
from typedbatch.errors import LeafError, StructureError
from typedbatch.protocols import RolloutBatchProtocol
from typedbatch.records import RolloutBatch


def from_minari(episode: EpisodeData) -> RolloutBatch:
    """Convert an episode to a rollout with views of its arrays.

    ``obs`` has all observations but the last, ``obs_next`` all but the first, and ``info`` the infos of the steps.
    Dicts and tuples become nested batches; the fields of a tuple are named ``"0"``, ``"1"``, ....

    Raises:
        LeafError: ``episode`` is not an episode, or has values that a batch cannot hold.
        StructureError: the episode does not have exactly one observation more than steps, another field has a different
            number of rows, or dicts and tuples are nested more than 100 deep.
    """
    if not isinstance(episode, EpisodeData):
        raise LeafError(f"from_minari() takes an episode of a Minari dataset, got {describe(episode)}")
    steps = len(episode.rewards)
    observed = Batch(obs=nested(episode.observations))
    if equal_rows(observed.__dict__) != steps + 1:
        text = f"an episode of {steps} steps has {steps + 1} observations, got {equal_rows(observed.__dict__)}"
        raise StructureError(text, "obs")
    infos = Batch(nested(episode.infos or {}))
    if count_rows(infos.__dict__) == steps + 1:  # the first is that of reset
        infos = infos[1:]
    rollout = RolloutBatch(
        obs=observed[:-1]["obs"],
        act=nested(episode.actions),
        rew=episode.rewards,
        terminated=episode.terminations,
        truncated=episode.truncations,
        obs_next=observed[1:]["obs"],
        info=infos,
    )
    equal_rows(rollout.__dict__)
    return rollout


def from_minari_dataset(dataset: MinariDataset) -> Iterator[RolloutBatch]:
    """Iterate over the episodes of a dataset; ``Batch.cat(list(...))`` joins them."""
    return map(from_minari, dataset)


def to_minari(batch: RolloutBatchProtocol, seed: int | None = None) -> EpisodeBuffer:
    """Convert an episode to a buffer for ``minari.create_dataset_from_buffers``.

    Fields that are not of a rollout are left out. Observations and infos are copied, since an episode has one more of
    each than steps. The first info, which is that of ``reset``, is filled with zeros.

    Args:
        batch: The steps of one episode, in order. Its ``info`` is a nested batch, or empty.
        seed: The seed that the environment was reset with.

    Raises:
        LeafError: ``batch`` is not a Batch, or a field is not an array or has a mask.
        MissingFieldError: it lacks a field of a rollout.
        StructureError: fields have different lengths, the batch has no steps, an episode ends before the last step,
            ``obs_next`` is not the ``obs`` of the next step, infos are not a nested batch, or batches are nested more
            than 100 deep.
    """
    tree = _rollout_fields(batch, "to_minari()")
    for path, leaf in leaves(tree.__dict__):
        if not is_placeholder(leaf) and (kind_of(leaf) is not ARRAY or isinstance(leaf, np.ma.MaskedArray)):
            raise LeafError(f"Minari stores only plain arrays, got {describe(leaf)}", path)
    if not equal_rows(tree.__dict__):
        raise StructureError("an episode must have at least one step")
    obs, after = Batch(obs=tree["obs"]), Batch(obs=tree["obs_next"])
    if not obs[1:].allclose(after[:-1], rtol=0, atol=0, equal_nan=True):
        text = "differs from the obs of the next step, so these are not the steps of one episode"
        raise StructureError(text, "obs_next")
    for name in ("terminated", "truncated"):
        if np.any(tree[name][:-1]):
            raise StructureError("is True before the last step, so these are not the steps of one episode", name)
    infos = tree["info"]
    if kind_of(infos) is not BATCH:
        raise StructureError(f"Minari stores infos by name, got {describe(infos)}; put it into a nested Batch", "info")
    return EpisodeBuffer(
        seed=seed,
        observations=unnested(Batch.cat([obs, after[-1:]])["obs"]),
        actions=unnested(tree["act"]),
        rewards=tree["rew"],
        terminations=tree["terminated"],
        truncations=tree["truncated"],
        infos=_to_lists(unnested(after_zeros(infos, 1, len(obs)))) if len(infos.keys()) else None,
    )


def write_minari(batch: RolloutBatchProtocol, dataset_id: str, env: Any = None, **options: Any) -> MinariDataset:
    """Write a rollout as a new Minari dataset, cut into its episodes.

    An episode ends where ``terminated`` or ``truncated`` is True. The last row is stored as truncated if it is neither,
    since episodes in a dataset have an end. Fields that are not of a rollout are left out, and data is copied, as by
    :func:`to_minari`. Nothing is written if an episode is refused.

    Args:
        batch: Steps of any number of episodes, one after another, such as a rollout or all rows of a buffer.
        dataset_id: Name of the new dataset, as ``"cartpole/random-v0"``.
        env: Id of the environment, or a single environment. Minari stores it, and also uses it as ``eval_env``. If it
            is None, pass ``observation_space=`` and ``action_space=``.
        **options: Other options of ``minari.create_dataset_from_buffers``, as ``author=``, ``description=``. Minari
            warns if they are missing.

    Raises:
        LeafError: ``batch`` is not a Batch, or a field is not an array or has a mask.
        MissingFieldError: it lacks a field of a rollout.
        StructureError: the rows between two ends are not the steps of one episode, or infos are not a nested batch; or
            there are no rows.
        ValueError: Minari refuses the dataset, for example because its name is already in use.
    """
    rows = _rollout_fields(batch, "write_minari()")
    episodes: list[Any] = split_by_episode(rows)
    if not episodes:
        raise StructureError("a dataset must have at least one step")
    last = episodes[-1]
    last["truncated"] = np.append(last["truncated"][:-1], not last["terminated"][-1])
    buffers = []
    for number, episode in enumerate(episodes):
        try:
            buffers.append(to_minari(episode))
        except StructureError as error:
            text = f"{error.reason}; this is episode {number}, of {len(episode)} steps"
            raise StructureError(text, error.path) from None
    return minari.create_dataset_from_buffers(dataset_id, buffers, env, **{"eval_env": env, **options})


def _rollout_fields(batch: Any, who: str) -> Batch:
    """Return the fields of a rollout as arrays, in a new Batch."""
    arrays = Batch(require_bounded(batch, who)).to_numpy()
    return Batch({name: arrays[name] for name in ("obs", "act", "rew", "terminated", "truncated", "obs_next", "info")})


def _to_lists(value: Any) -> Any:
    """Return infos with lists instead of arrays of one dimension, which Minari's Arrow format does not read back."""
    if isinstance(value, dict):
        return {name: _to_lists(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_to_lists, value))
    return list(value) if value.ndim == 1 else value
