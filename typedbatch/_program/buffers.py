"""Members of replay buffers: what they need of the batches that are added, and what they return."""

from __future__ import annotations

from typing import Final

from typedbatch._program import report
from typedbatch._program.frames import Call
from typedbatch._program.heap import BufferObject, Field
from typedbatch._program.judge import has_in, made_at
from typedbatch._program.library import join
from typedbatch._program.machine import Machine
from typedbatch._program.needs import lacks
from typedbatch._program.values import ARRAY, UNKNOWN, Atom, Class, External, Ref, Value, union

_ROLLOUT: Final = ("obs", "act", "rew", "terminated", "truncated")
"""Fields that a buffer needs of every batch."""
_OF_ROWS: Final = (*_ROLLOUT, "done", "obs_next", "info", "weight", "policy")
"""Fields of the batches that a buffer returns."""

_OF_WINDOWS: Final = ("mask", "is_pad", "is_first")
"""Fields that windows of rows have, too."""

_CHANGE_ROWS: Final = frozenset({"extend", "load_hdf5", "set_array_at_key", "set_batch", "update"})
"""Members of a buffer that may give its rows other fields."""


def call_buffer_member(machine: Machine, buffer: Ref, name: str, call: Call) -> Value:
    """Call a member of a buffer."""
    if name == "add" and call.first is not None:
        lacking = lacks(machine, call.first, _ROLLOUT)
        if lacking and call.node is not None:
            text = report.lacking("RolloutBatchProtocol", lacking, has_in(machine, call.first))
            machine.report(call.node, report.ARGUMENT, text, lacking, made_at(machine, call.first))
        copies = machine.copied(call.first)
        written = machine.heap.write(buffer)
        assert isinstance(written, BufferObject)
        written.rows = union(written.rows, copies)
    elif name in ("sample", "sample_sequences"):
        into = [atom for atom in call.named.get("into", ()) if isinstance(atom, (Class, External))]
        more = () if name == "sample" else _OF_WINDOWS
        rows = machine.fresh(into[0]) if into else UNKNOWN if "into" in call.named else (row_of(machine, buffer, more),)
        return machine.list_of([rows, ARRAY])
    else:
        machine.escape_functions(call)
        if name in _CHANGE_ROWS:
            machine.escape((buffer,))
    return UNKNOWN


def row_of(machine: Machine, buffer: Atom, more: tuple[str, ...] = ()) -> Ref:
    """Make the batch of rows that a buffer returns, with ``more`` fields."""
    found = machine.object_at(buffer)
    assert isinstance(found, BufferObject)
    batch = join(machine, found.rows)
    written = machine.write_batch(batch)
    written.declared = None
    if not found.rows or "HER" in found.type.__name__:
        machine.open_batch(batch)
    for name in (*_OF_ROWS, *more):
        if name not in written.fields:
            written.fields[name] = Field(UNKNOWN)
    return batch
