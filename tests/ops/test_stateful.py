"""Any sequence of operations leaves a batch as a dict of lists would be, every row as a whole."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.ops.model import KINDS, Model, contents, dtypes
from typedbatch import Batch, cat, stack

PATHS = ("act", "obs.cam", "obs.pos", "info.env.id", "rew")
kinds = st.sampled_from(sorted(KINDS))


def numbers_of(index: Any, rows: int) -> list[int]:
    """The numbers of the rows that an index takes, as numpy counts them."""
    if isinstance(index, torch.Tensor):
        index = index.numpy()
    return np.arange(rows)[index].tolist()


@st.composite
def indices(draw: st.DrawFn, rows: int) -> Any:
    """What takes rows and leaves their dimension: slices, lists, masks, arrays and tensors."""
    numbers = st.lists(st.integers(-rows, rows - 1), max_size=6) if rows else st.just([])
    kind = draw(st.sampled_from(["slice", "list", "mask", "array", "tensor", "tensor mask"]))
    if kind == "slice":
        return draw(st.slices(rows))
    if "mask" in kind:
        mask = draw(st.lists(st.booleans(), min_size=rows, max_size=rows))
        return torch.tensor(mask, dtype=torch.bool) if "tensor" in kind else np.array(mask, bool)
    picked = draw(numbers)
    if kind == "list":
        return picked
    return torch.tensor(picked, dtype=torch.int64) if kind == "tensor" else np.array(picked, np.intp)


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
        return Model({path: (kind, self.new_rows(kind, rows)) for path, (kind, _) in self.model.fields.items()})

    @initialize(rows=st.integers(0, 6), fields=st.dictionaries(st.sampled_from(PATHS), kinds, min_size=1))
    def make(self, rows, fields):
        self.model = Model({path: (kind, self.new_rows(kind, rows)) for path, kind in fields.items()})
        self.batch = self.model.batch()
        self.dtypes = dtypes(self.batch)

    def become(self, batch: Batch, model: Model) -> None:
        assert type(batch) is Batch
        self.batch, self.model = batch, model

    # ---- fields ---------------------------------------------------------------------------------------------------

    @rule(path=st.sampled_from(PATHS), kind=kinds)
    def set_field(self, path, kind):
        rows = self.new_rows(kind, len(self.model))
        self.model.fields[path] = (kind, rows)
        *outer, name = path.split(".")
        inner = self.batch
        for step in outer:
            inner = inner.__dict__[step] if step in inner else inner.__dict__.setdefault(step, Batch())
        setattr(inner, name, KINDS[kind][0](rows))
        self.dtypes = dtypes(self.batch)

    @precondition(lambda self: len(self.model.fields) > 1)
    @rule(data=st.data())
    def remove_field(self, data):
        path = data.draw(st.sampled_from(sorted(self.model.fields)))
        del self.model.fields[path]
        self.batch = self.model.batch()
        self.dtypes = dtypes(self.batch)

    # ---- rows -----------------------------------------------------------------------------------------------------

    @rule(data=st.data())
    def take(self, data):
        index = data.draw(indices(len(self.model)))
        self.become(self.batch[index], self.model.take(numbers_of(index, len(self.model))))

    @rule(size=st.integers(1, 4), merge_last=st.booleans())
    def split_in_order(self, size, merge_last):
        pieces = list(self.batch.split(size, shuffle=False, merge_last=merge_last))
        assert [row for piece in pieces for row in zip(*contents(piece).values(), strict=True)] == self.rows()
        lengths = [len(piece) for piece in pieces]
        assert all(length == size for length in lengths[:-1])
        assert not merge_last or len(lengths) < 2 or lengths[-1] >= size

    @rule(size=st.integers(1, 4), seed=st.integers(0, 9))
    def split_shuffled(self, size, seed):
        pieces = list(self.batch.split(size, rng=seed))
        met = [repr(row) for piece in pieces for row in zip(*contents(piece).values(), strict=True)]
        assert sorted(met) == sorted(map(repr, self.rows()))

    @precondition(lambda self: len(self.model) < 30)
    @rule(rows=st.integers(0, 3), in_place=st.booleans())
    def join(self, rows, in_place):
        other = self.new_model(rows)
        if in_place:
            self.batch.cat_(other.batch())
            self.model = self.model.join(other)
        else:
            self.become(cat([self.batch, other.batch()]), self.model.join(other))

    @rule()
    def stack_and_take_one(self):
        other = self.new_model(len(self.model))
        stacked = stack([other.batch(), self.batch])
        assert contents(stacked[0]) == {path: rows for path, (_, rows) in other.fields.items()}
        self.become(stacked[1], self.model)

    # ---- writing --------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.model))
    @rule(data=st.data())
    def write_rows(self, data):
        """Rows of a batch, written at row numbers that are all different."""
        numbers = data.draw(st.lists(st.integers(0, len(self.model) - 1), unique=True, min_size=1))
        other = self.new_model(len(numbers))
        self.batch[numbers] = other.batch()
        self.model.write(numbers, lambda path, _: other.fields[path][1].__getitem__)

    @precondition(lambda self: len(self.model))
    @rule(data=st.data())
    def write_a_part_of_a_row(self, data):
        """Fields of the top level that are left out become zeros, ``None`` among objects."""
        number = data.draw(st.integers(0, len(self.model) - 1))
        given_names = data.draw(st.sets(st.sampled_from(sorted({path.split(".")[0] for path in self.model.fields}))))
        other = self.new_model(1)
        given_row = other.batch()[0]
        self.batch[number] = {name: given_row[name] for name in given_names}
        self.model.write(
            [number],
            lambda path, kind: (
                other.fields[path][1].__getitem__ if path.split(".")[0] in given_names else lambda _: KINDS[kind][1]
            ),
        )

    @precondition(lambda self: len(self.model))
    @rule(data=st.data())
    def empty_rows(self, data):
        index = data.draw(indices(len(self.model)))
        self.batch.empty_(index)
        self.model.write(numbers_of(index, len(self.model)), lambda _, kind: lambda _: KINDS[kind][1])

    # ---- copies ---------------------------------------------------------------------------------------------------

    @rule(how=st.sampled_from([copy.deepcopy, lambda b: Batch(b, copy=True), lambda b: pickle.loads(pickle.dumps(b))]))
    def leave_a_copy_behind(self, how):
        """What is written to the copy later does not come back."""
        old = self.batch
        self.batch = how(old)
        assert self.batch == old
        old.empty_()

    @rule()
    def go_through_torch_and_back(self):
        assert contents(self.batch.to_torch().to_numpy()) == contents(self.batch)

    # ---- what holds -----------------------------------------------------------------------------------------------

    def rows(self) -> list[tuple[Any, ...]]:
        """Each row of the batch, in the order in which it names its fields."""
        return list(zip(*contents(self.batch).values(), strict=True))

    @invariant()
    def each_row_is_that_of_the_model(self):
        if not hasattr(self, "model"):
            return
        assert contents(self.batch) == {path: rows for path, (_, rows) in self.model.fields.items()}
        assert dtypes(self.batch) == self.dtypes
        assert len(self.batch) == len(self.model)
        assert self.batch == self.model.batch()


TestBatches = Batches.TestCase
