"""Minari's episodes as rollouts, and rollouts as episodes to make a dataset of. Needs the extra ``minari``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from minari import EpisodeData, MinariDataset
from minari.data_collector import EpisodeBuffer

from typedbatch._ops.padding import after_zeros
from typedbatch._spaces import nested, unnested
from typedbatch._tree.leaves import ARRAY, BATCH, describe, is_reserved, kind_of
from typedbatch._tree.rows import count_rows, equal_rows, leaves, require_bounded
from typedbatch.batch import Batch
from typedbatch.errors import LeafError, StructureError
from typedbatch.protocols import RolloutBatchProtocol
from typedbatch.records import RolloutBatch

_FIELDS: Final = ("obs", "act", "rew", "terminated", "truncated", "obs_next", "info")


def from_minari(episode: EpisodeData) -> RolloutBatch:
    """An episode as a rollout: views of its arrays, nothing is copied.

    ``obs`` are all observations but the last, ``obs_next`` all but the first, ``info`` what the steps returned. Dicts
    and tuples become nested batches, fields of a tuple are called ``"0"``, ``"1"``, ....

    Raises:
        LeafError: no episode, or values that no batch holds.
        StructureError: there is not one observation more than there are steps, or another field has not as many rows;
            dicts and tuples are nested more than 100 deep.
    """
    if not isinstance(episode, EpisodeData):
        raise LeafError(f"from_minari() takes an episode of a Minari dataset, got {describe(episode)}")
    steps = len(episode.rewards)
    observed = Batch(obs=nested(episode.observations))
    if equal_rows(observed.__dict__) != steps + 1:
        raise StructureError(f"{equal_rows(observed.__dict__)} observations of {steps} steps", "obs")
    infos = Batch(nested(episode.infos or {}))
    if count_rows(infos.__dict__) == steps + 1:  # the first is what reset returned
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
    """Every episode of a dataset; ``Batch.cat(list(...))`` is all of them in one."""
    return map(from_minari, dataset)


def to_minari(batch: RolloutBatchProtocol, seed: int | None = None) -> EpisodeBuffer:
    """One whole episode for ``minari.create_dataset_from_buffers``; fields that no rollout has are left out.

    Observations and infos are copied, as there is one more of each than there are steps: the first info, which is for
    what ``reset`` returned, is zeros.

    Args:
        batch: the steps of one episode, in order. Its ``info`` is a nested batch, or empty.
        seed: what the environment was reset with.

    Raises:
        LeafError: ``batch`` is not a Batch, or holds what is not an array, or one with a mask.
        MissingFieldError: it lacks a field of a rollout.
        StructureError: fields of different lengths, no steps, an end before the last step, an ``obs_next`` that is not
            the ``obs`` of the step after, infos that are not a nested batch, or batches nested more than 100 deep.
    """
    given = Batch(require_bounded(batch, "to_minari()")).to_numpy()
    tree = Batch({name: given[name] for name in _FIELDS})
    for path, leaf in leaves(tree.__dict__):
        if not is_reserved(leaf) and (kind_of(leaf) is not ARRAY or isinstance(leaf, np.ma.MaskedArray)):
            raise LeafError(f"Minari keeps plain arrays, got {describe(leaf)}", path)
    if not equal_rows(tree.__dict__):
        raise StructureError("an episode has at least one step")
    obs, after = Batch(obs=tree["obs"]), Batch(obs=tree["obs_next"])
    if not obs[1:].allclose(after[:-1], rtol=0, atol=0, equal_nan=True):
        raise StructureError("not the obs of the step after, so these are not the steps of one episode", "obs_next")
    for name in ("terminated", "truncated"):
        if np.any(tree[name][:-1]):
            raise StructureError("true before the last step, so these are not the steps of one episode", name)
    infos = tree["info"]
    if kind_of(infos) is not BATCH:
        raise StructureError(f"Minari keeps infos by name, got {describe(infos)}; put it into a nested Batch", "info")
    return EpisodeBuffer(
        seed=seed,
        observations=unnested(Batch.cat([obs, after[-1:]])["obs"]),
        actions=unnested(tree["act"]),
        rewards=tree["rew"],
        terminations=tree["terminated"],
        truncations=tree["truncated"],
        infos=_listed(unnested(after_zeros(infos, 1, len(obs)))) if len(infos.keys()) else None,
    )


def _listed(value: Any) -> Any:
    """Infos with lists for arrays of one dimension, which Minari's Arrow format does not read back."""
    if isinstance(value, dict):
        return {name: _listed(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return tuple(map(_listed, value))
    return list(value) if value.ndim == 1 else value
