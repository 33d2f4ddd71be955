"""Conversion of RLlib's sample batches. Needs the extra ``rllib``."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from ray.rllib.policy import sample_batch as rllib

from typedbatch._core.kinds import BATCH, KINDS, describe, is_placeholder, new_tree, object_array
from typedbatch._core.lengths import require_bounded
from typedbatch._ops.construct import to_leaf
from typedbatch._ops.conversion import leaf_to_numpy
from typedbatch._space_values import named
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
    """Convert an RLlib batch to a SampleBatch or MultiAgentBatch on the same arrays and tensors.

    Dicts and tuples become nested batches; the fields of a tuple are named ``"0"``, ``"1"``, .... ``infos`` stay dicts
    in an object array, one per step, because a nested batch would fill in keys that some of them lack.

    Raises:
        LeafError: ``batch`` is not an RLlib batch, or has columns that a batch cannot hold.
        StructureError: columns have different lengths, there are more env steps than agent steps, or dicts and tuples
            are nested more than 100 deep.
    """
    if isinstance(batch, rllib.MultiAgentBatch):
        return MultiAgentBatch({name: from_rllib(own) for name, own in batch.policy_batches.items()}, batch.count)
    if not isinstance(batch, rllib.SampleBatch):
        raise LeafError(f"from_rllib() takes an RLlib SampleBatch or MultiAgentBatch, got {describe(batch)}")
    # dict.items() because RLlib's own may convert values that are read
    columns = named({name: value for name, value in dict.items(batch) if value is not None})
    infos = columns.pop("infos", None)
    converted = SampleBatch(columns)
    if infos is not None:
        is_list = isinstance(infos, (list, np.ndarray))
        converted.__dict__["infos"] = object_array(list(infos)) if is_list else to_leaf(infos)
    len(converted)
    return converted


@overload
def to_rllib(batch: MultiAgentBatch) -> rllib.MultiAgentBatch: ...  # type: ignore[overload-overlap]  # pyright: ignore[reportOverlappingOverload]  # the first match counts
@overload
def to_rllib(batch: BatchProtocol) -> rllib.SampleBatch: ...
def to_rllib(batch: Any) -> Any:
    """Convert a batch to an RLlib batch on the same arrays and tensors. Reserved fields are left out.

    ``dones``, which RLlib no longer accepts, become ``terminateds`` unless the batch has these; otherwise they are left
    out. Nested batches become dicts, ``infos`` an object array of dicts, ``seq_lens`` int32. Compressed columns are
    decompressed.

    Raises:
        LeafError: ``batch`` is not a Batch.
        StructureError: columns have different lengths, or batches are nested more than 100 deep.
    """
    if isinstance(batch, MultiAgentBatch):
        return rllib.MultiAgentBatch({name: to_rllib(own) for name, own in batch.policy_batches.items()}, batch.count)
    tree: SampleBatch = new_tree(SampleBatch, dict(require_bounded(batch, "to_rllib()").__dict__))
    layout = layout_of(tree.__dict__)
    tree.decompress_if_needed(list(tree.__dict__))
    columns: dict[str, Any] = {}
    for name, value in tree.__dict__.items():
        if KINDS[type(value)] is not BATCH:
            columns[name] = np.asarray(leaf_to_numpy(value), np.int32) if name == "seq_lens" else value
        elif not is_placeholder(value):
            columns[name] = object_array(Batch.to_list_of_dicts(value)) if name == "infos" else Batch.to_dict(value)
    if "dones" in columns:
        dones = columns.pop("dones")
        columns.setdefault("terminateds", dones)
    if layout.seq_lens is None:
        return rllib.SampleBatch(columns)
    return rllib.SampleBatch(columns, _zero_padded=not layout.is_flat, _max_seq_len=tree.max_seq_len)
