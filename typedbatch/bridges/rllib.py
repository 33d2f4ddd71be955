"""RLlib's sample batches. Needs the extra ``rllib``."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from ray.rllib.policy import sample_batch as rllib

from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._spaces import named
from typedbatch._tree.leaves import BATCH, KINDS, Tree, describe, is_reserved, new_tree, object_array
from typedbatch._tree.rows import require_bounded
from typedbatch.batch import Batch
from typedbatch.errors import LeafError
from typedbatch.protocols import BatchProtocol
from typedbatch.sample_batches.layout import layout_of
from typedbatch.sample_batches.multi_agent import MultiAgentBatch
from typedbatch.sample_batches.sample_batch import SampleBatch


@overload
def from_rllib(batch: rllib.SampleBatch) -> SampleBatch: ...
@overload
def from_rllib(batch: rllib.MultiAgentBatch) -> MultiAgentBatch: ...
def from_rllib(batch: Any) -> SampleBatch | MultiAgentBatch:
    """A batch of RLlib as one of ours, on the same arrays and tensors.

    Dicts and tuples become nested batches, fields of a tuple are called ``"0"``, ``"1"``, .... ``infos`` stay
    dicts, one per step, in an object array: a nested batch would fill in what some of them lack.

    Raises:
        LeafError: ``batch`` is something else, or columns that no batch holds.
        StructureError: columns of different lengths, more env steps than agent steps, or dicts and tuples that are
            nested more than 100 deep.
    """
    if isinstance(batch, rllib.MultiAgentBatch):
        return MultiAgentBatch({name: from_rllib(one) for name, one in batch.policy_batches.items()}, batch.count)
    if not isinstance(batch, rllib.SampleBatch):
        raise LeafError(f"from_rllib() takes a SampleBatch or MultiAgentBatch of RLlib, got {describe(batch)}")
    # dict's own items: RLlib's may convert what is read
    columns = named({name: value for name, value in dict.items(batch) if value is not None})
    infos = columns.pop("infos", None)
    ours = SampleBatch(columns)
    if infos is not None:
        ours.__dict__["infos"] = object_array(list(infos)) if isinstance(infos, (list, np.ndarray)) else to_leaf(infos)
    len(ours)
    return ours


@overload
def to_rllib(batch: MultiAgentBatch) -> rllib.MultiAgentBatch: ...  # pyright: ignore[reportOverlappingOverload]  # the first that fits
@overload
def to_rllib(batch: BatchProtocol) -> rllib.SampleBatch: ...
def to_rllib(batch: Any) -> Any:
    """A batch as one of RLlib's, on the same arrays and tensors. Reserved fields are left out.

    ``dones``, which RLlib takes no longer, become ``terminateds`` where there are none, and are left out otherwise.
    Nested batches become dicts, ``infos`` an object array of dicts, ``seq_lens`` int32. Compressed columns are
    decompressed.

    Raises:
        LeafError: ``batch`` is not a Batch.
        StructureError: columns of different lengths, or batches that are nested more than 100 deep.
    """
    if isinstance(batch, MultiAgentBatch):
        return rllib.MultiAgentBatch({name: to_rllib(one) for name, one in batch.policy_batches.items()}, batch.count)
    tree: SampleBatch = new_tree(SampleBatch, dict(require_bounded(batch, "to_rllib()").__dict__))
    layout = layout_of(tree.__dict__)
    tree.decompress_if_needed(list(tree.__dict__))
    columns = {name: _column(name, value) for name, value in tree.__dict__.items() if not is_reserved(value)}
    if "dones" in columns:
        dones = columns.pop("dones")
        columns.setdefault("terminateds", dones)
    if layout.seq_lens is None:
        return rllib.SampleBatch(columns)
    return rllib.SampleBatch(columns, _zero_padded=not layout.is_flat, _max_seq_len=tree.max_seq_len)


def _column(name: str, value: Any) -> Any:
    if KINDS[type(value)] is BATCH:
        return object_array(_rows(value)) if name == "infos" else Batch.to_dict(value)
    return np.asarray(leaf_to_numpy(value), np.int32) if name == "seq_lens" else value


def _rows(infos: Tree) -> list[dict[str, Any]]:
    return Batch.to_list_of_dicts(infos)  # type: ignore[arg-type]  # a Tree that is nested in a Batch is a Batch
