"""Any sequence of operations leaves a batch as a dict of lists would be, every row as a whole."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from torch.distributions import Normal

from tests.ops.model import KINDS, RESERVED, Model, contents, dtypes, leaves, nested
from typedbatch import Batch, cat, stack
from typedbatch.errors import TypedBatchError

PATHS = ("act", "obs.cam", "obs.pos", "info.env.id", "rew")
WIDE = ("wide", "pairs")
INTEGERS = ("uint8", "int8", "uint16", "int32", "uint64", "int64")
kinds = st.sampled_from(sorted(KINDS))


def numbers_of(index: Any, rows: int) -> list[int]:
    """The numbers of the rows that an index takes, as numpy counts them."""
    return np.arange(rows)[index.numpy() if isinstance(index, torch.Tensor) else index].tolist()


@st.composite
def indices(draw: st.DrawFn, rows: int, unique: bool = False) -> Any:
    """Draw an index that takes rows and leaves their dimension: slices, lists, masks, arrays and tensors."""
    kind = draw(st.sampled_from(["slice", "all", "list", "range", "mask", "array", "tensor", "tensor mask", "flags"]))
    if kind in ("slice", "all", "range"):
        taken = draw(st.slices(rows))
        return {"slice": taken, "all": draw(st.sampled_from([..., (taken,)]))}.get(kind, range(*taken.indices(rows)))
    if "mask" in kind or kind == "flags":
        mask = np.array(draw(st.lists(st.booleans(), min_size=rows, max_size=rows)), bool)
        return {"mask": mask, "tensor mask": torch.from_numpy(mask), "flags": mask.tolist()}[kind]
    negative = 0 if unique else -rows
    numbers = st.lists(st.integers(negative, rows - 1), max_size=6, unique=unique) if rows else st.just([])
    picked = draw(numbers)
    if kind == "list":
        return picked
    if kind == "tensor":
        return torch.tensor(picked, dtype=draw(st.sampled_from([torch.int64, torch.int32, torch.int8])))
    signed = any(number < 0 for number in picked)
    return np.array(picked, draw(st.sampled_from([name for name in INTEGERS if not signed or name[0] == "i"])))


class Batches(RuleBasedStateMachine):
    """A batch beside its model."""

    last = 0

    def number(self) -> int:
        self.last += 1
        return self.last

    def new_rows(self, kind: str, count: int) -> list[Any]:
        return [KINDS[kind][2](self.number()) for _ in range(count)]

    def new_model(self, rows: int) -> Model:
        """As many other rows, of the same fields."""
        return self.model.like(
            {path: (kind, self.new_rows(kind, rows)) for path, (kind, _) in self.model.fields.items()}
        )

    @initialize(
        rows=st.integers(0, 6),
        fields=st.dictionaries(st.sampled_from(PATHS), kinds, min_size=1),
        reserved=st.sets(st.sampled_from(RESERVED)),
        nothing=st.booleans(),
    )
    def make(self, rows, fields, reserved, nothing):
        new = {path: (kind, self.new_rows(kind, rows)) for path, kind in fields.items()}
        self.model = Model(new, sorted(reserved), nothing)
        self.batch = self.model.batch()
        self.dtypes = dtypes(self.batch)

    def become(self, batch: Batch, model: Model) -> None:
        assert type(batch) is Batch
        self.batch, self.model = batch, model

    def numbered(self) -> Batch:
        """The batch with a distribution in which each row has its number; it cannot be written to."""
        return Batch(self.batch, dist=Normal(torch.arange(float(len(self.model))), 1.0))

    # ---- fields ---------------------------------------------------------------------------------------------------

    @rule(path=st.sampled_from(PATHS), kind=kinds, by_item=st.booleans())
    def set_field(self, path, kind, by_item):
        rows = self.new_rows(kind, len(self.model))
        self.model.fields[path] = (kind, rows)
        *outer, name = path.split(".")
        inner = self.batch
        for step in outer:
            inner = inner.__dict__[step] if step in inner else inner.__dict__.setdefault(step, Batch())
        if by_item:
            inner[name] = KINDS[kind][0](rows)
        else:
            setattr(inner, name, KINDS[kind][0](rows))
        assert getattr(inner, name) is inner[name]
        self.dtypes = dtypes(self.batch)

    @precondition(lambda self: len(self.model.fields) > 1)
    @rule(data=st.data(), by_item=st.booleans())
    def remove_field(self, data, by_item):
        path = data.draw(st.sampled_from(sorted(self.model.fields)))
        del self.model.fields[path]
        *outer, name = path.split(".")
        inner, others = self.batch, [*self.model.fields, *self.model.reserved]
        for i, step in enumerate(outer):
            if not any(other.startswith(".".join(outer[: i + 1]) + ".") for other in others):
                name = step  # the last field in it goes with the batch around it
                break
            inner = inner[step]
        if by_item:
            del inner[name]
        else:
            delattr(inner, name)
        assert name not in inner
        assert not hasattr(inner, name)
        self.dtypes = dtypes(self.batch)

    @precondition(lambda self: len(self.model))
    @rule(data=st.data(), kind=kinds, default=st.booleans())
    def set_rows_of_a_field(self, data, kind, default):
        """Rows of a new field that get no value are missing, or have the default; those of an old field stay."""
        rows = len(self.model)
        old = data.draw(st.sampled_from([None, *(path for path in self.model.fields if "." not in path)]))
        index = data.draw(st.none() | indices(rows, unique=True))
        numbers = list(range(rows)) if index is None else numbers_of(index, rows)
        kind = self.model.fields[old][0] if old else kind
        values = self.new_rows(kind, len(numbers))
        batch = copy.deepcopy(self.batch) if old is None else self.batch
        nulls: dict[str, Any] = {"float": np.nan, "object": None, "pairs": [np.nan] * 2}
        column: list[Any] = list(self.model.fields[old][1]) if old else [nulls.get(kind)] * rows
        complete = len(numbers) == rows or kind in nulls
        if default and kind in ("small", "wide", "tensor", "float") and not old:
            column, complete = [[5, 5] if kind == "wide" else 5] * rows, True
        given = {"default_value": 5} if default and kind not in ("flag", "object") else {}
        if not old and not given and not complete:
            with pytest.raises(TypeError, match="get no value"):
                batch.set_array_at_key(KINDS[kind][0](values), "new", index)
            assert "new" not in batch
            return
        if given and kind == "pairs" and not old:
            column = [[5.0, 5.0]] * rows
        batch.set_array_at_key(KINDS[kind][0](values), old or "new", index, **given)
        for number, value in zip(numbers, values, strict=True):
            column[number] = value
        np.testing.assert_equal(contents(batch)[old or "new"], column)
        if old:
            self.model.fields[old] = kind, column
        else:
            assert batch.new.dtype == KINDS[kind][0]([]).dtype

    # ---- rows -----------------------------------------------------------------------------------------------------

    @rule(data=st.data())
    def take(self, data):
        index = data.draw(indices(len(self.model)))
        taken, numbers = self.numbered()[index], numbers_of(index, len(self.model))
        assert taken.dist.mean.tolist() == numbers
        assert contents(self.batch[None][0]) == contents(self.batch)
        if isinstance(index, slice) and (index.step or 1) > 0:
            assert all(leaf.base is not None for leaf in leaves(self.batch[index]).values() if type(leaf) is np.ndarray)
        del taken.dist
        self.become(taken, self.model.take(numbers))

    @precondition(lambda self: len(self.model))
    @rule(data=st.data(), of=st.sampled_from([int, np.int64, np.int8, torch.tensor]))
    def take_one(self, data, of):
        number = data.draw(st.integers(-len(self.model), len(self.model) - 1))
        row = self.numbered()[of(number)]
        assert row.dist.mean.item() == number % len(self.model)
        del row.dist
        assert contents(row) == self.model.row(number)
        assert [contents(row) for row in self.batch] == [self.model.row(number) for number in range(len(self.model))]

    @rule(data=st.data(), cell=st.sampled_from([0, -1, slice(None, None, -1), [1, 0, 1]]))
    def take_cells(self, data, cell):
        wide = {path: leaf for path, leaf in leaves(self.batch).items() if self.model.fields[path][0] in WIDE}
        rows = data.draw(st.sampled_from([slice(None), slice(1, None), ...]) | st.slices(len(self.model)))
        if isinstance(cell, slice) or not isinstance(rows, slice) or (rows.step or 1) > 0 or isinstance(cell, int):
            taken = contents(nested(wide)[rows, cell]) if wide else {}
            assert taken == {
                path: np.array(leaf.tolist()).reshape(-1, 2)[rows, cell].tolist() for path, leaf in wide.items()
            }

    @rule(size=st.integers(1, 4) | st.just(-1), merge_last=st.booleans())
    def split_in_order(self, size, merge_last):
        pieces = list(self.numbered().split(size, shuffle=False, merge_last=merge_last))
        numbers = [int(number) for piece in pieces for number in piece.dist.mean.tolist()]
        assert numbers == list(range(len(self.model)))
        self.compare_pieces(pieces)
        size = max(len(self.model), 1) if size == -1 else size
        lengths = [len(piece) for piece in pieces]
        assert all(length == size for length in lengths[:-1])
        assert not merge_last or len(lengths) < 2 or size <= lengths[-1] < 2 * size
        assert merge_last or all(0 < length <= size for length in lengths)

    @rule(size=st.integers(1, 4), seed=st.integers(0, 9))
    def split_shuffled(self, size, seed):
        pieces = list(self.numbered().split(size, rng=seed))
        assert sorted(number for piece in pieces for number in piece.dist.mean.tolist()) == list(range(len(self.model)))
        self.compare_pieces(pieces)

    def compare_pieces(self, pieces: list[Batch]) -> None:
        for piece in pieces:
            numbers = [int(number) for number in piece.dist.mean.tolist()]
            del piece.dist
            assert contents(piece) == self.model.take(numbers).rows()

    @precondition(lambda self: len(self.model) < 30)
    @rule(
        rows=st.integers(0, 3),
        how=st.sampled_from(["new", "generator", "in place", "in place, list"]),
        as_dict=st.booleans(),
    )
    def join(self, rows, how, as_dict):
        other = self.new_model(rows)
        more = other.batch().to_dict() if as_dict and rows else other.batch()
        if "in place" in how:
            self.batch.cat_([more] if "list" in how else more)
            self.model = self.model.join(other)
        else:
            parts = [self.batch, Batch(), more]
            self.become(cat(iter(parts) if how == "generator" else parts), self.model.join(other))

    @precondition(lambda self: len(self.model) < 30 and len(self.model.fields) > 1)
    @rule(data=st.data(), rows=st.integers(1, 3), kind=kinds, first=st.booleans())
    def join_different_fields(self, data, rows, kind, first):
        """Fields that some lack, or only reserve, are filled at both ends, or refused."""
        kept = data.draw(st.sets(st.sampled_from(sorted(self.model.fields)), min_size=1))
        other = self.new_model(rows).part(path for path in self.model.fields if path in kept)
        reserved = data.draw(st.booleans())
        if data.draw(st.booleans()):
            other.fields["extra.deep"] = kind, self.new_rows(kind, rows)
        lacking = other.fields.keys() ^ self.model.fields.keys()
        other.reserved = sorted({*self.model.reserved, *((lacking & self.model.fields.keys()) if reserved else ())})
        other.nothing = self.model.nothing
        pair = [other, self.model] if first else [self.model, other]
        batches = [model.batch() for model in pair]
        if lacking - set(other.reserved) or "extra.deep" in other.fields:
            with pytest.raises(TypedBatchError, match=r"is missing in batch|missing in some"):
                cat(batches)
            with pytest.raises(TypedBatchError):
                stack(batches, missing="error")
        joined = cat(batches, missing="pad")
        assert contents(joined) == pair[0].join(pair[1]).rows()
        assert dtypes(joined) == dtypes(pair[0].batch()) | dtypes(pair[1].batch())
        equally_long = [model.take([0] * rows) for model in pair] if len(self.model) else []
        if equally_long:
            stacked = stack([model.batch() for model in equally_long])
            for place, model in enumerate(equally_long):
                whole = {path: model.gap(kind) for path, (kind, _) in pair[0].join(pair[1]).fields.items()}
                assert contents(stacked[place]) == whole | model.rows()

    @rule(axis=st.sampled_from([0, 1]), in_place=st.booleans(), as_dict=st.booleans())
    def stack_and_take_one(self, axis, in_place, as_dict):
        other = self.new_model(len(self.model))
        self.model.nothing, other.nothing = self.model.nothing and axis == 0, other.nothing and axis == 0
        if not self.model.nothing and "none" in self.batch:
            del self.batch.none
        stacked = other.batch()
        more = self.batch.to_dict() if as_dict and axis == 0 and len(self.model) else self.batch
        if in_place:
            stacked.stack_([more], axis=axis)
        else:
            stacked = stack([stacked, more], axis=axis)
        first, second = (stacked[:, 0], stacked[:, 1]) if axis else (stacked[0], stacked[1])
        assert contents(first) == other.rows()
        self.become(second, self.model)

    # ---- writing --------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.model))
    @rule(data=st.data(), how=st.sampled_from(["batch", "dict", "rows", "one for all"]), strict=st.booleans())
    def write_rows(self, data, how, strict):
        """Rows written where an index takes all different rows."""
        index = data.draw(indices(len(self.model), unique=True))
        numbers = numbers_of(index, len(self.model))
        if how == "rows" and not numbers:
            return
        other = self.new_model(1 if how == "one for all" else len(numbers))
        if how == "one for all":
            other = other.take([0] * len(numbers))
        elif how == "rows" and (self.model.nothing or any(kind == "object" for kind, _ in other.fields.values())):
            how = "dict"  # a list of rows is stacked first, which makes columns of None, and fields of dicts
        value: Any = other.batch()
        if how != "batch":
            value = list(value) if how == "rows" else value.to_dict()
        if how == "one for all" and all(kind != "object" for kind, _ in other.fields.values()) and numbers:
            value = other.batch()[:1]
        before = leaves(self.batch)
        self.batch.set_rows(index, value, strict=strict)
        assert all(leaf is before[path] for path, leaf in leaves(self.batch).items())
        self.model.write(numbers, lambda path, _: other.fields[path][1].__getitem__)

    @precondition(lambda self: len(self.model))
    @rule(data=st.data(), backward=st.booleans())
    def shift_rows(self, data, backward):
        """Rows of the batch itself, which overlap those that are written."""
        count = data.draw(st.integers(1, len(self.model)))
        to, start = (data.draw(st.integers(0, len(self.model) - count)) for _ in range(2))
        source = slice(start, start + count)
        read = self.batch[source][::-1] if backward else self.batch[source]
        taken = self.model.take(range(len(self.model))[source][:: -1 if backward else 1])
        self.batch[to : to + count] = read
        self.model.write(range(to, to + count), lambda path, _: taken.fields[path][1].__getitem__)

    @precondition(lambda self: len(self.model))
    @rule(data=st.data(), as_dict=st.booleans())
    def write_a_part_of_a_row(self, data, as_dict):
        """Fields that are left out, nested ones too, become zeros, ``None`` among objects; or are refused."""
        number = data.draw(st.integers(0, len(self.model) - 1))
        given = data.draw(st.sets(st.sampled_from(sorted(self.model.fields))))
        other = self.new_model(1)
        cells = leaves(other.batch()[0])
        given -= {path for path in given if isinstance(cells[path], (dict, Batch))}  # A dict of a row is nested fields.
        row = nested({path: cells[path] for path in given})
        if given != self.model.fields.keys() or self.model.nothing or self.model.reserved:
            with pytest.raises(TypedBatchError, match="lack"):
                self.batch.set_rows(number, Batch(row), strict=True)
        self.each_row_is_that_of_the_model()
        self.batch[number] = row.to_dict() if as_dict else row
        self.model.write(
            [number],
            lambda path, kind: other.fields[path][1].__getitem__ if path in given else lambda _: KINDS[kind][1],
        )

    @precondition(lambda self: len(self.model))
    @rule(data=st.data())
    def empty_rows(self, data):
        index = data.draw(indices(len(self.model)))
        self.batch.empty_(index)
        self.model.write(numbers_of(index, len(self.model)), lambda _, kind: lambda _: KINDS[kind][1])

    @precondition(lambda self: len(self.model))
    @rule(
        data=st.data(),
        wrong=st.sampled_from(["text", 1j, np.zeros(3), torch.zeros(3), {"deeper": 1}]),
        several=st.booleans(),
    )
    def fail(self, data, wrong, several):
        """An error in one field leaves those before it as they were."""
        rows, row = len(self.model), self.new_model(1).batch()[0]
        path = data.draw(st.sampled_from(sorted(self.model.fields)))
        *outer, name = path.split(".")
        inner = row
        for step in outer:
            inner = inner[step]
        if self.model.fields[path][0] != "object":
            inner[name] = wrong
            with pytest.raises(TypedBatchError, match=name):
                self.batch[slice(0, 1) if several else 0] = row
        good = self.new_model(1).batch()
        for operation in (
            lambda: self.batch.set_rows(0, Batch(good[0], unknown=1)),
            lambda: self.batch.set_rows(rows, good[0]),
            lambda: self.batch.set_rows([0, -rows - 1], good),
            lambda: self.batch.set_rows(np.ones(rows + 1, bool), good),
            lambda: self.batch.set_array_at_key(np.zeros(rows + 1), "unknown"),
            lambda: self.batch.set_array_at_key(np.zeros(rows + 1), "unknown", [0]),
            lambda: self.batch.cat_(Batch(good, unknown=[1])),
            lambda: self.batch.stack_([Batch(self.batch, unknown=np.zeros(rows))], axis=1),
            lambda: self.batch.empty_([rows]),
            lambda: self.batch[rows],
            lambda: self.batch[[0, -rows - 1]],
            lambda: self.batch[np.ones(rows + 1, bool)],
            lambda: self.batch[torch.ones(rows + 1, dtype=torch.bool)],
        ):
            with pytest.raises(TypedBatchError):
                operation()

    # ---- copies ---------------------------------------------------------------------------------------------------

    @rule(how=st.sampled_from([copy.deepcopy, lambda b: Batch(b, copy=True), lambda b: pickle.loads(pickle.dumps(b))]))
    def leave_a_copy_behind(self, how):
        """Check that later writes to a copy do not change the batch."""
        old = self.batch
        self.batch = how(old)
        assert self.batch == old
        old.empty_()

    @rule(join=st.sampled_from([lambda b: cat([b]), lambda b: cat([b, b[:0]]), lambda b: stack([b])[0]]))
    def leave_the_parts_behind(self, join):
        old = self.batch
        self.batch = join(old)
        old.empty_()

    @rule()
    def go_through_torch_and_back(self):
        assert contents(self.batch.to_torch().to_numpy()) == contents(self.batch)

    # ---- what holds -----------------------------------------------------------------------------------------------

    @invariant()
    def each_row_is_that_of_the_model(self):
        if not hasattr(self, "model"):
            return
        assert contents(self.batch) == self.model.rows()
        assert dtypes(self.batch) == self.dtypes
        assert len(self.batch) == len(self.model)
        assert self.batch == self.model.batch()


TestBatches = Batches.TestCase
