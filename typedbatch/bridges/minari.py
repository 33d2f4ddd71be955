"""Minari's episodes as rollouts, and rollouts as episodes to make a dataset of. Needs the extra ``minari``."""

from __future__ import annotations

from collections.abc import Iterator

from minari import EpisodeData, MinariDataset
from minari.data_collector import EpisodeBuffer

from typedbatch.batch import Batch
from typedbatch.bridges.gymnasium import nested, unnested
from typedbatch.errors import LeafError, StructureError
from typedbatch.leaves import BATCH, Tree, describe, kind_of
from typedbatch.protocols import RolloutBatchProtocol
from typedbatch.records import RolloutBatch
from typedbatch.rows import count_rows, equal_rows, require_tree


def from_minari(episode: EpisodeData) -> RolloutBatch:
    """An episode as a rollout: views of its arrays, nothing is copied.

    ``obs`` are all observations but the last, ``obs_next`` all but the first, ``info`` what the steps returned. Dicts
    and tuples become nested batches, fields of a tuple are called ``"0"``, ``"1"``, ....

    Raises:
        LeafError: no episode, or values that no batch holds.
        StructureError: there is not one observation more than there are steps.
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
    return RolloutBatch(
        obs=observed[:-1]["obs"],
        act=nested(episode.actions),
        rew=episode.rewards,
        terminated=episode.terminations,
        truncated=episode.truncations,
        obs_next=observed[1:]["obs"],
        info=infos,
    )


def from_minari_dataset(dataset: MinariDataset) -> Iterator[RolloutBatch]:
    """Every episode of a dataset; ``Batch.cat(list(...))`` is all of them in one."""
    return map(from_minari, dataset)


def to_minari(batch: RolloutBatchProtocol, seed: int | None = None) -> EpisodeBuffer:
    """One whole episode for ``minari.create_dataset_from_buffers``. Observations are copied, as there is one more.

    Args:
        batch: the steps of one episode, in order.
        seed: what the environment was reset with.

    Raises:
        StructureError: fields of different lengths, no steps, or an ``obs_next`` that is not the ``obs`` of the step
            after.
    """
    tree: Tree = require_tree(batch.to_numpy(), "to_minari()")
    if not equal_rows(tree.__dict__):
        raise StructureError("an episode has at least one step")
    obs, after = (Batch(obs=tree.__dict__[name]) for name in ("obs", "obs_next"))
    if obs[1:] != after[:-1]:
        raise StructureError("not the obs of the step after, so these are not the steps of one episode", "obs_next")
    infos = tree.__dict__["info"]
    return EpisodeBuffer(
        seed=seed,
        observations=unnested(Batch.cat([obs, after[-1:]])["obs"]),
        actions=unnested(tree.__dict__["act"]),
        rewards=tree.__dict__["rew"],
        terminations=tree.__dict__["terminated"],
        truncations=tree.__dict__["truncated"],
        infos=unnested(infos) if kind_of(infos) is BATCH else None,
    )
