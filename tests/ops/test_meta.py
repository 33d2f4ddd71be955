"""The meta of a batch as a whole: every operation keeps it, and it is never a field."""

from __future__ import annotations

import gc
import pickle
import threading
from collections.abc import Callable
from copy import copy, deepcopy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from typedbatch import Batch, ObsBatch, cat, convert, extend, objects, stack, validate
from typedbatch.errors import LeafError, MissingFieldError, SettingError, StructureError
from typedbatch.pytree import register
from typedbatch.rows import restore, union
from typedbatch.sequences import pad


def sampled() -> Batch:
    return Batch(a=[1, 2, 3], n={"x": [1.0, 2.0, 3.0]}, meta={"step": 3, "scale": np.ones(2)})


def reduced(protocol: int) -> Callable[[Batch], Batch]:
    return lambda b: pickle.loads(pickle.dumps(b, protocol))


def out_of_band(batch: Batch) -> Batch:
    buffers: list[Any] = []
    data = pickle.dumps(batch.to_torch(), 5, buffer_callback=buffers.append)
    made: Batch = pickle.loads(data, buffers=buffers)
    return made


def mapped(batch: Batch) -> Batch:
    from torch.utils import _pytree

    register()
    made: Batch = _pytree.tree_map(lambda leaf: leaf + 1, batch)
    return made


KEEPING: dict[str, Callable[[Batch], Batch]] = {
    "row": lambda b: b[0],
    "slice": lambda b: b[:2],
    "list": lambda b: b[[2, 0]],
    "mask": lambda b: b[np.array([True, False, True])],
    "tensor": lambda b: b[torch.tensor([0, 1])],
    "iteration": lambda b: next(iter(b)),
    "split": lambda b: next(b.split(2, shuffle=False)),
    "shuffled split": lambda b: next(b.split(2, rng=0)),
    "copy": lambda b: b.copy(),
    "copy.copy": copy,
    "deepcopy": deepcopy,
    "Batch(batch)": Batch,
    "Batch(batch, copy=True)": lambda b: Batch(b, copy=True),
    "arithmetic": lambda b: b + 1,
    "reflected": lambda b: 2 * b,
    "ufunc": np.exp,
    "to_torch": lambda b: b.to_torch(),
    "to_torch with a dtype": lambda b: b.to_torch(torch.float32),
    "to_numpy": lambda b: b.to_torch().to_numpy(),
    "at least 2d": lambda b: b.to_at_least_2d(),
    "transform": lambda b: b.apply_values_transform(lambda leaf: leaf),
    "empty": Batch.empty,
    "dropnull": lambda b: b.dropnull(),
    "pickle": reduced(pickle.HIGHEST_PROTOCOL),
    "old pickle": reduced(0),
    "pickle of tensors": lambda b: reduced(5)(b.to_torch()),
    "out of band": out_of_band,
    "cat": lambda b: cat([b, b]),
    "stack": lambda b: stack([b, b]),
    "cat of itself in pieces": lambda b: cat(list(b.split(2, shuffle=False))),
    "list of batches": lambda b: Batch([b, b]),
    "rows": lambda b: Batch.from_rows(iter(b)),
    "pytree": mapped,
}


@pytest.mark.parametrize("operation", KEEPING)
def test_an_operation_keeps_the_meta_in_a_dict_of_its_own(operation):
    batch = sampled()
    made = KEEPING[operation](batch)
    assert made.meta.keys() == {"step", "scale"}
    assert made.meta["step"] == 3
    assert made.meta["scale"].tolist() == [1, 1]
    made.meta["step"] = 4
    assert batch == sampled()


def test_meta_is_no_field():
    batch = sampled()
    assert list(batch.keys()) == ["a", "n"]
    assert "meta" not in batch
    assert len(batch) == 3
    assert batch.to_dict().keys() == {"a", "n"}
    assert batch.to_torch().meta["scale"] is batch.meta["scale"]
    assert batch[:1].meta["scale"] is batch.meta["scale"]
    with pytest.raises(MissingFieldError):
        batch["meta"]


def test_a_field_of_that_name_goes_through_data():
    batch = Batch({"meta": [1, 2]}, meta={"step": 1})
    assert batch["meta"].tolist() == [1, 2]
    assert batch[:1]["meta"].tolist() == [1]
    assert batch.meta == {"step": 1}


def test_a_batch_without_meta_has_an_empty_one_that_takes_writes():
    batch = Batch(a=[1])
    assert batch.meta == {}
    batch.meta["step"] = 1
    assert batch.meta == {"step": 1}
    batch.b = [2]
    assert list(batch.keys()) == ["a", "b"]
    assert batch.b.tolist() == [2]
    batch.meta = {"other": 2}
    assert batch[0].meta == {"other": 2}


def test_a_dict_that_is_given_is_copied():
    given_meta = {"step": 1}
    batch = Batch(a=[1], meta=given_meta)
    batch.meta["step"] = 2
    assert given_meta == {"step": 1}
    assert Batch(batch, meta={}).meta == {}


def test_equality_compares_it_and_an_empty_one_is_none():
    batch, other = sampled(), sampled()
    assert batch == other
    assert batch.allclose(other)
    other.meta["scale"] = np.zeros(2)
    assert batch != other
    assert not batch.allclose(other)
    assert Batch(a=[1], meta={}) == Batch(a=[1])


def test_it_is_shown_behind_the_fields_where_there_is_some():
    assert repr(Batch(a=1, meta={"step": 1})) == "Batch(\n    a: array(1),\n    meta={'step': 1},\n)"
    assert repr(Batch(meta={"step": 1})) == "Batch(\n    meta={'step': 1},\n)"
    assert "meta" not in repr(Batch(a=1, meta={}))


def test_what_shares_the_fields_shares_the_meta_whichever_had_it_first():
    batch = Batch(obs=np.ones(2), info=Batch())
    record = validate(batch, ObsBatch)
    record.meta["step"] = 1
    assert batch.meta == {"step": 1}
    batch.meta["step"] = 2
    assert record.meta == {"step": 2}
    record.obs = np.zeros(2)
    assert batch.obs.tolist() == [0, 0]


def test_extend_and_convert_keep_it():
    batch = Batch(obs=np.ones(2), info=Batch(), meta={"step": 1})
    assert extend(batch, ObsBatch).meta == {"step": 1}
    assert extend(batch, ObsBatch, meta={"step": 2}).meta == {"step": 2}
    assert convert(batch, ObsBatch[torch.Tensor]).meta == {"step": 1}
    assert batch.meta == {"step": 1}


@pytest.mark.parametrize("join", [cat, stack])
def test_what_differs_is_refused_unless_it_is_said_what_to_do(join):
    one, two = Batch(a=[1], meta={"step": 1, "t": 0.5}), Batch(a=[2], meta={"step": 2, "t": 0.5})
    with pytest.raises(StructureError) as caught:
        join([one, two])
    assert str(caught.value) == (
        "field 'meta.step': the batches differ: 1, 2; meta='first' takes the first, meta='drop' leaves it out, "
        "meta={'step': max} calls a function"
    )
    assert join([one, two], meta="first").meta == {"step": 1, "t": 0.5}
    assert join([one, two], meta="drop").meta == {"t": 0.5}
    assert join([one, two], meta={"step": max}).meta == {"step": 2, "t": 0.5}
    assert join([one, two], meta={"step": sum, "t": sum}).meta == {"step": 3, "t": 1.0}


TREES = {
    "array": np.array([1.0, np.nan]),
    "complex array": np.array([complex("nan")]),
    "masked array": np.ma.array([1.0, np.nan], mask=[True, False]),
    "times": np.array(["NaT", "2026-01-01"], "datetime64[s]"),
    "tensor": torch.tensor([float("nan"), 1.0]),
    "tensor of bfloat16": torch.tensor([float("nan")], dtype=torch.bfloat16),
    "column of objects": objects([float("nan"), None, [float("nan")]]),
    "number": float("nan"),
    "number of numpy": np.float32("nan"),
    "time": np.datetime64("NaT"),
    "containers": [{"a": [float("nan"), np.array([np.nan])]}],
    "batch": Batch(x=np.array([np.nan])),
}

ARRAYS = [value for value in TREES.values() if isinstance(value, (np.ndarray, torch.Tensor))]


@pytest.mark.parametrize("value", TREES.values(), ids=TREES)
def test_nan_in_the_same_places_needs_no_choice(value):
    one, two = (Batch(a=[1], meta={"k": deepcopy(value)}) for _ in range(2))
    for joined in (cat([one, two]), stack([one, two]), union(one, two), restore([one, two], [[1], [0]])):
        assert joined.meta.keys() == {"k"}
    other = Batch(a=[1], meta={"k": 1})
    for join in (lambda: cat([one, other]), lambda: union(one, other)):
        with pytest.raises(StructureError, match=r"meta\.k.*differ"):
            join()


@pytest.mark.parametrize("value", ARRAYS)
def test_nan_in_the_same_places_of_a_field_is_joined(value):
    batch = Batch(x=value)
    other = deepcopy(batch)
    assert union(batch, other).x is batch.x
    other["x"] = np.zeros_like(value) if isinstance(value, np.ndarray) else torch.zeros_like(value)
    with pytest.raises(StructureError, match="'x': both batches have it"):
        union(batch, other)


@pytest.mark.parametrize(
    ("one", "two", "text"),
    [
        ({"lr": 1, "n": 2}, {"lr": 1, "n": 3}, "differ in ['n']: 2, 3"),
        ({"lr": [0.1, {"a": "x"}]}, {"lr": [0.1, {"a": "y"}]}, "differ in ['lr'][1]['a']: 'x', 'y'"),
        ({"a": 1}, {"b": 1}, "differ: only one has 'a'"),
        ({"o": {"a": 1}}, {"o": {"b": 1}}, "differ in ['o']: only one has 'a'"),
        ([1, 2], [1], "differ: list, list"),
        (np.zeros(2), np.zeros(3), "differ: f64[2], f64[3]"),
        (None, 0, "differ: None, 0"),
    ],
)
def test_a_difference_is_named_down_to_its_key(one, two, text):
    with pytest.raises(StructureError) as caught:
        cat([Batch(a=[1], meta={"k": one}), Batch(a=[1], meta={"k": two})])
    assert f"field 'meta.k': the batches {text}; meta='first'" in str(caught.value)


def test_ways_out_of_differing_meta_work():
    one, two = (Batch(a=[step], meta={"step": step}) for step in (1, 2))
    with pytest.raises(StructureError, match="meta='first' takes the first"):
        restore([one, two], [[1], [0]])
    assert restore([one, two], [[1], [0]], meta="first").meta == {"step": 1}
    for make in (Batch.from_rows, Batch):
        rows = [one[0], two[0]]
        with pytest.raises(StructureError, match=r"meta=\{'step': \.\.\.\} sets the meta of the result"):
            make(rows)
        assert make(rows, meta={"step": 3}).meta == {"step": 3}
    other = Batch(two, a=[1])
    other.meta.update(version=7, step=2)
    with pytest.raises(StructureError, match=r"meta\.step.*the batches differ: 1, 2; meta='first' takes the first"):
        union(one, other)
    assert union(one, other, meta="first").meta == {"step": 1, "version": 7}
    assert union(one, other, meta="drop").meta == {"version": 7}
    assert union(one, other, meta={"step": max}).meta == {"step": 2, "version": 7}
    assert union(one, Batch(other, meta={"version": 7, "step": None})).meta == {"step": 1, "version": 7}
    assert (one.meta, other.meta) == ({"step": 1}, {"step": 2, "version": 7})
    with pytest.raises(SettingError, match="meta= must be 'error', 'first', 'drop'"):
        union(one, other, meta="last")
    with pytest.raises(StructureError, match="meta='first' takes the first"):
        pad([one, two])
    assert pad([one, two], meta="first").meta == {"step": 1}


def test_what_some_lack_is_refused_and_empty_batches_have_no_say():
    one = Batch(a=[1], meta={"step": 1})
    with pytest.raises(StructureError, match=r"meta\.step.*1 of 2 batches lack it"):
        cat([one, Batch(a=[2])])
    assert cat([one, Batch(), one]).meta == {"step": 1}
    assert cat([Batch(a=[2]), one], meta="first").meta == {"step": 1}


def test_cat_in_place_takes_the_joined_meta():
    batch = Batch(a=[1], meta={"step": 1})
    batch.cat_(Batch(a=[2], meta={"step": 2}), meta={"step": max})
    assert batch.meta == {"step": 2}
    batch.stack_([Batch(a=[3, 4], meta={"step": 5})], meta="drop")
    assert batch.meta == {}


@pytest.mark.parametrize(
    ("operation", "error", "says"),
    [
        (lambda: Batch(a=1, meta=[1]), LeafError, r"meta must be a dict, got list; .*Batch\(\{'meta': \.\.\.\}\)"),
        (lambda: Batch(a=1, meta={1: 2}), LeafError, r"the keys of meta must be strings, got 1 \(int\)"),
        (lambda: setattr(sampled(), "meta", 5), LeafError, "meta must be a dict, got int"),
        (lambda: cat([sampled()], meta="last"), SettingError, "'error', 'first', 'drop' or a dict of functions"),
        (lambda: cat([sampled()], meta={"step": 3}), SettingError, "a function for each key, got 3 for 'step'"),
        (lambda: cat([sampled()], meta={"step": len, "scale": lambda _: 1 / 0}), StructureError, "ZeroDivisionError"),
        (lambda: deepcopy(Batch(meta={"l": threading.Lock()})), LeafError, r"meta\.l.*lock cannot be copied"),
        (
            lambda: ObsBatch(obs=1, info=2, meta={}),
            TypeError,
            r"takes no meta, as it declares none; set it afterwards, batch.meta = \{...\}, or declare it",
        ),
    ],
)
def test_bad_meta_is_refused_by_name(operation, error, says):
    with pytest.raises(error, match=says):
        operation()


@given(
    st.dictionaries(st.text(max_size=3), st.one_of(st.integers(), st.text(), st.lists(st.integers())), max_size=3),
    st.integers(1, 7),
    st.integers(1, 4),
)
def test_cat_of_split_is_the_same_batch(meta, rows, size):
    batch = Batch(a=np.arange(rows), meta=meta)
    assert cat(list(batch.split(size, shuffle=False))) == batch
    assert stack(list(batch)) == batch


def test_a_view_shares_meta_and_fields_whatever_the_garbage_collector_is_told():
    batch = Batch(obs=np.zeros((2, 3)), info=Batch())
    view = validate(batch, ObsBatch)
    gc.freeze()
    try:
        batch.meta["step"] = 7
        batch.done = np.zeros(2)
    finally:
        gc.unfreeze()
    assert view.meta == {"step": 7}
    assert "done" in view


def test_views_that_several_threads_make_at_once_share_the_fields_of_the_batch():
    for _ in range(200):
        batch = Batch(obs=np.zeros((2, 3)), info=Batch())
        views: list[ObsBatch] = []
        start = threading.Barrier(3)

        def look(batch: Batch = batch, views: list[ObsBatch] = views, start: threading.Barrier = start) -> None:
            start.wait()
            views.append(validate(batch, ObsBatch))

        threads = [threading.Thread(target=look) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        batch.done = np.zeros(2)
        assert all("done" in view for view in views)
