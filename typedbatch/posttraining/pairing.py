"""Pairs of a better and a worse response from rollouts: ``pairs_of``."""

from __future__ import annotations

from typing import Any

import numpy as np

from typedbatch._core.lengths import require_tree
from typedbatch._core.meta import meta_of, set_meta
from typedbatch._ops.indexing import take
from typedbatch.errors import StructureError
from typedbatch.posttraining.records import Pairs, Rollouts
from typedbatch.posttraining.trimming import trim
from typedbatch.protocols import BatchProtocol
from typedbatch.sequences import Lengths, whole_numbers


def pairs_of(batch: BatchProtocol, better: Lengths, worse: Lengths) -> Pairs:
    """Return pairs of rows of rollouts, as of the rows that ``groups(batch, "uid").pairs(batch.rewards)`` gives.

    Args:
        batch: Rollouts in the layout ``split``, with ``uid``.
        better: Row numbers of the better responses.
        worse: Row numbers of the worse responses to the same prompts.

    Returns:
        New pairs with the meta of the batch, without the columns that no row uses. Tokens are copied.

    Raises:
        MissingFieldError: The batch does not have the fields of the layout.
        SizeError: Row numbers are not whole numbers from 0 up.
        StructureError: There are not as many better as worse rows, or two rows of a pair have another ``uid``.
        IndexError: A row number is out of range.
    """
    tree: Any = require_tree(batch, "pairs_of()")
    first, second = whole_numbers(better, "row numbers"), whole_numbers(worse, "row numbers")
    if len(first) != len(second):
        raise StructureError(f"a pair is a better and a worse row, got {len(first)} and {len(second)} row numbers")
    names = ("prompt_ids", "prompt_mask", "response_ids", "response_mask", "loss_mask", "uid")
    only: Any = Rollouts(**{name: tree[name] for name in names})
    uid = np.asarray(only.uid)
    if len(other := np.flatnonzero(uid[first] != uid[second])):
        pair = int(other[0])
        rows, keys = (int(first[pair]), int(second[pair])), (uid[first[pair]], uid[second[pair]])
        raise StructureError(f"rows {rows[0]} and {rows[1]} are of other prompts, {keys[0]!r} and {keys[1]!r}", "uid")
    chosen, rejected = trim(take(only, first)), trim(take(only, second))
    pairs = Pairs(
        prompt_ids=chosen.prompt_ids,
        prompt_mask=chosen.prompt_mask,
        chosen_ids=chosen.response_ids,
        chosen_mask=chosen.response_mask,
        rejected_ids=rejected.response_ids,
        rejected_mask=rejected.response_mask,
    )
    if meta := meta_of(tree):
        set_meta(pairs, dict(meta))
    return pairs
