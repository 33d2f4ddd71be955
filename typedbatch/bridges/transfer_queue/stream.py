"""Streams of rows that pass through the stages of a pipeline in several processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar, overload
from uuid import uuid4

import torch
import transfer_queue
from tensordict import NonTensorStack, TensorDict
from typing_extensions import TypeForm

from typedbatch._core.kinds import ARRAY, KINDS, RAGGED, TENSOR, describe, is_masked, is_objects, new_tree, object_array
from typedbatch._core.lengths import equal_rows, require_at_least, require_bounded
from typedbatch._core.meta import FieldsWithMeta, meta_of, set_meta
from typedbatch._ops.conversion import leaf_to_device
from typedbatch._ops.joined_meta import MetaRule, joined_meta
from typedbatch._ops.widths import Widths
from typedbatch._validation.convert import convert
from typedbatch._validation.validate import validate
from typedbatch.batch import Batch, cat
from typedbatch.bridges.transfer_queue._queue import attach, call
from typedbatch.errors import (
    LeafError,
    SettingError,
    SizeError,
    StreamError,
    StreamTimeoutError,
    StructureError,
    did_you_mean,
    for_each,
)
from typedbatch.protocols import BatchProtocol
from typedbatch.schema import schema_of

T = TypeVar("T")
B = TypeVar("B", bound=BatchProtocol)
KEY: Final = "stream_key"
"""Name of the column of text that says which rows of the stream the rows of a batch are."""
_PAUSE: Final = 0.01
_PLAIN: Final = (str, int, float, bool, bytes, type(None))


class Stream:
    """A stream of rows between the processes of a job.

    ::

        stream = Stream("step 3", [Prompts, Rollouts, Scored, Ready], group="uid")
        rollouts = stream.get(Prompts, 64, task="sample")      # in the sampler
        stream.put(sample(rollouts))                           # writes what Rollouts adds
        batch = stream.get(PolicyLossProtocol, 64, task="update", groups=True)  # in the trainer

    Rows are known by their column ``KEY``, which operations on rows keep. Each row is given once to each task. A
    process that dies loses what it has not put, and, as a reader, the rows that it was given last.

    Args:
        name: Name of the stream, the same in all processes: TransferQueue's partition.
        stages: Records, in order, of which each has the fields of the one before.
        group: Name of a column by which rows belong together, as ``"uid"``; a group is put as a whole.
        widths: Treatment of rows of different widths, as in :meth:`typedbatch.Batch.cat`.
        pad_token_id: Id for padded positions.

    Raises:
        SettingError: No queue is open, or a stage lacks fields of the previous one.
    """

    def __init__(
        self,
        name: str,
        stages: Sequence[type[Any]],
        *,
        group: str | None = None,
        widths: Widths = "pad",
        pad_token_id: int | None = None,
    ) -> None:
        self.name = name
        self._widths: Widths = widths
        self._held: dict[str, Any] = {}
        """Rows that were taken for a task and could not be joined."""
        self._stages = list(stages)
        self._group = group
        self._pad_token_id = pad_token_id
        self._fields = [[field.name for field in schema_of(stage).fields] for stage in stages]
        for before, after, stage in zip(self._fields, self._fields[1:], self._stages[1:], strict=False):
            if missing := [field for field in before if field not in after]:
                raise SettingError(f"the stage {stage.__name__} lacks {missing[0]!r} of the one before")
        if not stages:
            raise SettingError("a stream has at least one stage")
        if group is not None and group not in self._fields[0]:
            raise SettingError(f"group= names {group!r}, which {stages[0].__name__} does not declare")
        self._client: Any = attach()

    def put(self, batch: B, stage: type[Any] | None = None) -> B:
        """Write the columns that a stage adds: all of its columns for new rows, else those of no earlier stage.

        Args:
            batch: Rows. Those without the column ``KEY`` are new.
            stage: Stage of a batch that is not a record; None for the class of the batch.

        Returns:
            The rows with their column ``KEY``; arrays and tensors are shared.

        Raises:
            SettingError: The batch is of no stage.
            SchemaError: The batch does not match the stage.
            LeafError: A column or a value of the meta is of a kind that the queue does not give back as it was.
            StructureError: Fields have different lengths, or rows occur twice.
            SizeError: ``batch`` has no rows.
            StreamError: The queue has failed.
        """
        number = self._number_of(batch, stage)
        tree: Any = require_bounded(batch, "put()")
        rows = equal_rows(tree.__dict__)
        if not rows:
            raise SizeError("a stream takes at least one row")
        validate(tree, self._stages[number])
        is_new = KEY not in tree.__dict__
        keys = [f"{uuid4().hex}.{row}" for row in range(rows)] if is_new else [str(key) for key in tree[KEY].tolist()]
        if twice := [key for key, count in Counter(keys).items() if count > 1]:
            raise StructureError(f"the row {twice[0]!r} occurs twice", KEY)
        earlier = [] if is_new or not number else self._fields[number - 1]
        names = [name for name in self._fields[number] if name not in earlier and tree.get(name) is not None]
        data = TensorDict(for_each({name: tree[name] for name in names}, _column), batch_size=[rows])
        tags = self._tags(tree, rows, is_new=is_new)
        if tags is not None:  # Rows are ready when their columns are there, so the tags come first.
            call(transfer_queue.kv_batch_put, keys, self.name, None, tags)
        call(transfer_queue.kv_batch_put, keys, self.name, data)
        out = tree.copy()
        out[KEY] = object_array(keys)
        result: B = out
        return result

    def _number_of(self, batch: Any, stage: type[Any] | None) -> int:
        if stage is not None:
            if stage not in self._stages:
                raise SettingError(f"the stream has no stage {stage.__name__}; it has {self._names()}")
            return self._stages.index(stage)
        found = [number for number, one in enumerate(self._stages) if isinstance(batch, one)]
        if not found:
            raise SettingError(f"a {type(batch).__name__} is of no stage; the stream has {self._names()}; pass stage=")
        return found[-1]

    def _names(self) -> str:
        return ", ".join(stage.__name__ for stage in self._stages)

    def _tags(self, tree: Any, rows: int, *, is_new: bool) -> list[dict[str, Any]] | None:
        """Return the tags of rows: the meta of the batch, and the groups of new rows; None if there is nothing."""
        meta = dict(meta_of(tree))
        if wrong := [key for key, value in meta.items() if not _is_plain(value)]:
            text = f"tags are text, numbers, None, lists and dicts, got {meta[wrong[0]]!r:.60}"
            raise LeafError(text, f"meta.{wrong[0]}")
        if not is_new or self._group is None:
            return [{"meta": meta}] * rows if meta else None
        groups: list[Any] = tree[self._group].tolist()
        sizes = Counter(groups)
        return [{"meta": meta, "group": group, "size": sizes[group]} for group in groups]

    def clear(self, batch: BatchProtocol) -> None:
        """Remove rows from the queue, when no process needs them any more.

        Raises:
            MissingFieldError: The batch does not have the column ``KEY``.
            StreamError: The queue has failed.
        """
        rows: Any = batch
        call(transfer_queue.kv_clear, [str(key) for key in rows[KEY].tolist()], self.name)

    @overload
    def get(
        self, into: TypeForm[T], n: int, *, task: str, groups: bool = False,
        at_least: Mapping[str, float] | None = None, timeout: float | None = None, meta: MetaRule = "error",
    ) -> T: ...  # fmt: skip
    @overload  # for jedi, which does not support TypeForm; checkers never reach this one
    def get(  # type: ignore[overload-cannot-match]  # pyright: ignore[reportOverlappingOverload]
        self, into: type[T], n: int, *, task: str, groups: bool = False,
        at_least: Mapping[str, float] | None = None, timeout: float | None = None, meta: MetaRule = "error",
    ) -> T: ...  # fmt: skip
    def get(
        self, into: Any, n: int, *, task: str, groups: bool = False,
        at_least: Mapping[str, float] | None = None, timeout: float | None = None, meta: MetaRule = "error",
    ) -> Any:  # fmt: skip
        """Wait for rows that have all columns of a protocol, and return them; no reader of the task gets them again.

        Rows that were taken and could not be joined, as their meta differs, are those of the next call for as many
        rows of the task in this process.

        Args:
            into: Protocol or record. Its required fields are waited for; optional ones come along if all rows have
                them.
            n: Number of rows.
            task: Name of what reads, the same in all processes that share the rows.
            groups: Whether rows come in whole groups; ``n`` is then a sum of their sizes.
            at_least: Smallest values of numbers in the meta of a row, as ``{"step": 3}``; older rows are left.
            timeout: Seconds to wait; None for ever.
            meta: Treatment of a key in which the rows differ, as in :meth:`typedbatch.Batch.cat`.

        Raises:
            StreamTimeoutError: There are not enough rows in time; none is taken.
            SettingError: ``into`` has a required field that no stage has, which would be waited for for ever.
            SchemaError: The rows do not match ``into``.
            StructureError: The meta of the rows differs.
            SizeError: ``n`` is below 1.
            StreamError: The queue has failed.
        """
        n = require_at_least(1, n, "n")
        required, optional = self._columns_of(into)
        sampling = {"groups": groups, "at_least": dict(at_least or {})}
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            found = self._held.get(task)
            if found is None or found.size != n:
                found = call(self._client.get_meta, required, n, self.name, "fetch", task, sampling)
            if found.size:
                self._held[task] = found
                batch = self._batch(into, found, required, optional, meta)
                del self._held[task]
                return batch
            if end is not None and time.monotonic() >= end:
                known = len(call(transfer_queue.kv_list, self.name).get(self.name, {}))
                raise StreamTimeoutError(
                    f"{self.name!r} has not {n} rows with {', '.join(required)} for the task {task!r} "
                    f"within {timeout:g} s; {known} rows are known"
                )
            time.sleep(_PAUSE)

    def _columns_of(self, into: Any) -> tuple[list[str], list[str]]:
        """Return the columns that a protocol requires, and those that it takes if they are there."""
        known = self._fields[-1]
        fields = [field for field in schema_of(into).fields if field.name != KEY]
        required = [field.name for field in fields if not field.optional]
        if unknown := [name for name in required if name not in known]:
            hint = did_you_mean(unknown[0], known)
            raise SettingError(f"no stage of the stream has {unknown[0]!r}{hint}; it would be waited for for ever")
        if not required:
            raise SettingError(f"{schema_of(into).name} requires no field, so any row would do")
        return required, [field.name for field in fields if field.optional and field.name in known]

    def _batch(self, into: Any, found: Any, required: list[str], optional: list[str], rule: MetaRule) -> Any:
        keys = call(self._client.kv_retrieve_keys, found.global_indexes, self.name)
        columns = dict(call(self._client.get_data, found).items())
        batch = self._joined(columns, required, len(keys))
        if optional:
            # The queue leaves out columns that a row lacks, and refuses if there is none that all rows have.
            more = call(transfer_queue.kv_batch_get, keys, self.name, [required[0], *optional])
            there = [name for name in optional if name in set(more.keys())]
            batch = self._joined({**columns, **{name: more[name] for name in there}}, [*required, *there], len(keys))
        batch[KEY] = object_array(keys)
        metas = [FieldsWithMeta({"row": True}, tag.get("meta", {})) for tag in found.custom_meta]
        if joined := joined_meta(metas, rule):
            set_meta(batch, joined)
        return convert(batch, into)

    def _joined(self, found: Mapping[str, Any], names: Sequence[str], rows: int) -> Batch:
        """Return the rows that the queue has given, padded to one width as declared where they have different ones."""
        columns: dict[str, list[Any]] = {}
        for name in names:
            if name not in found:
                raise StreamError("rows of the queue lack this column; they may have been cleared meanwhile", name)
            column = found[name]
            columns[name] = [*column.unbind()] if isinstance(column, torch.Tensor) else column.tolist()
        if short := [name for name, values in columns.items() if len(values) != rows]:
            raise StreamError(f"the queue gives {len(columns[short[0]])} of {rows} rows", short[0])
        parts: list[Batch] = [
            new_tree(self._stages[-1], {name: _stacked(values[run]) for name, values in columns.items()})
            for run in _runs([column for column in columns.values() if isinstance(column[0], torch.Tensor)], rows)
        ]
        return Batch(cat(parts, widths=self._widths, pad_token_id=self._pad_token_id) if len(parts) > 1 else parts[0])

    def loader(
        self, into: type[T], n: int, *, task: str, total: int, groups: bool = False, meta: MetaRule = "error"
    ) -> Iterator[T]:
        """Yield batches of ``n`` rows until all readers of the task have had ``total`` rows; the last may be smaller.

        Args:
            into: Protocol or record.
            n: Number of rows of a batch.
            task: Name of what reads.
            total: Number of rows that pass through the stream.
            groups: Whether rows come in whole groups.
            meta: Treatment of a key in which the rows of a batch differ.

        Raises:
            SizeError: ``n`` or ``total`` is below 1.
            StreamError: The queue has failed.
        """
        require_at_least(1, total, "total")
        while (left := total - self._read_by(task)) > 0:
            try:
                batch = self.get(into, min(n, left), task=task, groups=groups, meta=meta, timeout=10 * _PAUSE)
            except StreamTimeoutError:
                continue  # Another reader may have had some of the rows.
            yield batch

    def _read_by(self, task: str) -> int:
        _, flags = call(self._client.get_consumption_status, task, self.name)
        return 0 if flags is None else int((flags == 1).sum())


def _column(leaf: Any) -> Any:
    """Return a field as a column; tensors are shared and arrays become tensors on the same memory."""
    kind = KINDS[type(leaf)]
    if is_objects(leaf) and leaf.ndim == 1:
        values = leaf.tolist()
        if wrong := [value for value in values if not _is_plain(value)]:
            raise LeafError(f"a queue takes text, numbers, None, lists and dicts of these, got {wrong[0]!r:.60}")
        return NonTensorStack(*values)
    if kind is TENSOR and leaf.layout is torch.strided and not leaf.is_nested:
        return leaf.detach()
    if kind is ARRAY and leaf.dtype.kind in "biufc" and not is_masked(leaf):
        return leaf_to_device("cpu", None)(leaf)
    hint = "; put its .padded(), or to_layout(batch, 'split', pad_token_id=...)" if kind is RAGGED else ""
    raise LeafError(f"a queue takes tensors, arrays of numbers and columns of objects, got {describe(leaf)}{hint}")


def _is_plain(value: Any) -> bool:
    """Return whether a value comes back from the queue as it was."""
    if type(value) is list:
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(type(key) is str and _is_plain(inner) for key, inner in value.items())
    return type(value) in _PLAIN


def _runs(columns: Sequence[list[Any]], rows: int) -> Iterator[slice]:
    """Yield runs of rows in which the tensors of each column have the same shape."""
    first = 0
    for row in range(1, rows + 1):
        if row == rows or any(column[row].shape != column[first].shape for column in columns):
            yield slice(first, row)
            first = row


def _stacked(values: list[Any]) -> Any:
    return torch.stack(values) if isinstance(values[0], torch.Tensor) else object_array(values)
