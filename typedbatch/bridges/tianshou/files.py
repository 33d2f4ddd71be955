"""Loading of buffers that Tianshou has saved: their rows and options, as everything else in these files is pickled."""

from __future__ import annotations

from typing import Any, Final, TypeVar

import numpy as np

from typedbatch._core.kinds import new_tree
from typedbatch.batch import Batch
from typedbatch.buffers import transfer
from typedbatch.buffers.declared import library_class
from typedbatch.buffers.replay import ReplayBuffer
from typedbatch.buffers.restore import make_empty
from typedbatch.buffers.rings import Slots
from typedbatch.buffers.state import state_of
from typedbatch.errors import StorageError
from typedbatch.files._hdf5 import Group, build_value

F = TypeVar("F", bound="ReplayBuffer[Any, Any]")

MARK: Final = "_meta"
PARTS: Final = (MARK, "last_index", "_lengths", "_extend_offset")
_OPTIONS: Final = {
    "stack_num": "stack_num",
    "save_only_last_obs": "_save_only_last_obs",
    "sample_avail": "_sample_avail",
}


def load(cls: type[F], root: Group, device: Any, path: str, more: dict[str, Any]) -> F:
    """Return a buffer of the class ``cls`` with the rows of a file that a buffer of Tianshou has saved.

    The rows of each ring are in time order. In a prioritized buffer, all rows have the same priority. ``more`` are
    arguments that the file does not have, such as ``path``.
    """
    known = root.attributes
    several, prioritized = "_lengths" in root.members, "_alpha" in known
    usual = f"{'Prioritized' * prioritized}{'Vector' * several}ReplayBuffer"
    name = "HERReplayBuffer" if "horizon" in known else usual
    size = int(known["maxsize"])
    edges = build_value(root.members["_extend_offset"], None) if several else np.array([0, size])
    if "horizon" in known or len(np.unique(np.diff(edges))) > 1 or len(edges) < 2:
        raise StorageError(
            f"{path} is a {'CachedReplayBuffer' if several else name} of Tianshou, of which only the rows can be read; "
            "typedbatch.files.hdf5.from_hdf5(path) returns them in a dict, if nothing in it is a pickle"
        )
    if library_class(cls).__name__ != name:
        raise StorageError(f"{path} is a {name} of Tianshou; read it with {name}.load_hdf5()")
    arguments: dict[str, Any] = {ours: known[theirs].item() for ours, theirs in _OPTIONS.items()}
    arguments["ignore_obs_next"] = not known["_save_obs_next"]
    if prioritized:
        arguments |= {"alpha": float(known["_alpha"]), "beta": float(known["_beta"])}
        arguments["weight_norm"] = bool(known.get("_weight_norm", True))
    made = {"total_size": size, "buffer_num": len(edges) - 1} if several else {"size": size}
    buffer = make_empty(cls, {**made, **arguments, **more})
    lengths = build_value(root.members["_lengths"], None) if several else np.array([int(known["_size"])])
    last = build_value(root.members["last_index"], None)
    _fill(buffer, build_value(root.members[MARK], device), edges, lengths, last)
    return buffer


def _fill(buffer: ReplayBuffer[Any, Any], rows: Any, edges: Slots, lengths: Slots, last: Slots) -> None:
    """Fill an empty buffer with columns, so that the oldest row of each ring is in its first slot."""
    if buffer.maxsize != edges[-1] or not (lengths.shape == last.shape == (len(edges) - 1,)):
        raise StorageError("a length and a last index for each ring are expected, got inconsistent positions")
    if not lengths.any():
        return
    begins = edges[:-1]
    if not ((lengths >= 0) & (lengths <= np.diff(edges)) & (begins <= last) & (last < edges[1:])).all():
        raise StorageError("positions must be inside of their rings, and some are not")
    capacity = int(np.diff(edges)[0])
    where = [
        (last[ring] - begins[ring] - count + 1 + np.arange(count)) % capacity + begins[ring]
        for ring, count in enumerate(lengths.tolist())
    ]
    batch: Batch = new_tree(Batch, dict(rows.__dict__))
    if len(batch.__dict__["done"]) != buffer.maxsize:
        raise StorageError(f"{buffer.maxsize} rows are expected, got {len(batch.__dict__['done'])}")
    transfer.refill(state_of(buffer), batch[np.concatenate(where)], lengths)
