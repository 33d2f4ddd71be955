"""Batches as tables of Arrow, and back: contents, shared memory, and what is refused."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Float, Int
from torch import Tensor
from torch.distributions import Normal

from tests.strategies import arrays, trees
from typedbatch import Batch, BatchRecord, Ragged, objects
from typedbatch._core.lengths import leaves
from typedbatch.bridges.arrow import from_arrow, read_parquet, to_arrow, write_parquet
from typedbatch.errors import LeafError, NoLengthError, SchemaError, StructureError

NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
TIMES = ("datetime64[s]", "datetime64[ms]", "datetime64[us]", "datetime64[ns]", "datetime64[D]", "timedelta64[s]")


def with_numbers_in_every_row(array: np.ndarray) -> bool:
    return 0 not in array.shape[1:]


@st.composite
def held(draw: st.DrawFn, dtypes: tuple[str, ...] = (*NUMBERS, "bool"), rows: int | None = None) -> Batch:
    """A batch of arrays that Arrow can hold; nested batches have a field at least."""
    rows = draw(st.integers(0, 4)) if rows is None else rows
    text = st.lists(st.text(max_size=3), min_size=rows, max_size=rows).map(lambda texts: np.array(texts, object))
    leaf = arrays(rows, dtypes).filter(with_numbers_in_every_row) | (text if rows else st.nothing())
    batch = draw(trees(leaf, min_size=1))
    batch["anchor"] = np.arange(rows)
    return batch


def table(column: Any) -> pa.Table:
    return pa.table({"c": column})


def column_of(given_column: Any) -> Any:
    return from_arrow(table(given_column))["c"]


def address(column: pa.ChunkedArray) -> int:
    """Where the numbers of a column begin."""
    array = column.chunk(0)
    while isinstance(array, pa.ExtensionArray | pa.FixedSizeListArray):
        array = array.storage if isinstance(array, pa.ExtensionArray) else array.values
    return array.buffers()[1].address + array.offset * array.type.bit_width // 8


@given(held())
def test_there_and_back(batch):
    data = to_arrow(batch)
    data.validate(full=True)
    assert data.num_rows == len(batch)
    assert from_arrow(data) == batch


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 4), (0,), (0, 2)])
@pytest.mark.parametrize("dtype", [*NUMBERS, *TIMES, "bool"])
def test_every_dtype(dtype, shape):
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    back = from_arrow(to_arrow(Batch(a={"b": array}))).a.b
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert (back == array).all()


@given(held((*NUMBERS,), rows=3))
def test_numbers_are_shared_there_and_back(batch):
    back = from_arrow(to_arrow(batch))
    theirs = dict(leaves(back.__dict__))
    for path, leaf in leaves(batch.__dict__):
        if leaf.dtype != object:
            assert np.shares_memory(leaf, theirs[path]), path


def test_buffers_are_those_of_the_arrays():
    batch = Batch(a=np.arange(4.0), cam=np.zeros((4, 8, 8), np.uint8), view=np.arange(8)[4:], rows=np.ones((8, 3))[2:6])
    data = to_arrow(batch)
    for name in batch.keys():
        assert address(data[name]) == batch[name].ctypes.data, name
    assert address(data["a"]) == from_arrow(data).a.ctypes.data


def test_what_comes_from_a_table_is_read_only():
    batch = from_arrow(to_arrow(Batch(a=np.zeros(3), b={"c": np.zeros((3, 2))})))
    for leaf in (batch.a, batch.b.c):
        with pytest.raises(ValueError, match="read-only"):
            leaf[0] = 1


def test_flags_and_strided_arrays_are_copied():
    strided, foreign, flags = np.arange(6.0)[::2], np.arange(3).astype(">i4"), np.array([True, False, True])
    back = from_arrow(to_arrow(Batch(strided=strided, foreign=foreign, flags=flags)))
    assert not np.shares_memory(back.strided, strided)
    assert not np.shares_memory(back.flags, flags)
    assert [back[name].tolist() for name in back.keys()] == [[0, 2, 4], [0, 1, 2], [True, False, True]]


def test_tensors():
    leaf = torch.arange(3.0, requires_grad=True)
    batch = Batch(a=leaf, b={"c": torch.arange(6).reshape(3, 2)}, half=torch.ones(3, dtype=torch.bfloat16))
    data = to_arrow(batch)
    assert address(data["a"]) == leaf.data_ptr()
    assert from_arrow(data) == Batch(a=leaf.detach(), b={"c": batch.b.c}, half=np.ones(3, np.float32))


def test_wide_tensors_keep_their_shape():
    data = to_arrow(Batch(cam=np.arange(2 * 3 * 4 * 5, dtype=np.uint8).reshape(2, 3, 4, 5)))
    assert data["cam"].type == pa.fixed_shape_tensor(pa.uint8(), [3, 4, 5])
    assert data["cam"].chunk(0).to_numpy_ndarray().shape == (2, 3, 4, 5)
    assert from_arrow(data.slice(1)).cam.tolist() == [np.arange(60, 120).reshape(3, 4, 5).tolist()]


def test_names_and_order():
    names = ["b", "a.b", "", "é", "items", "__len__", "0"]
    data = to_arrow(Batch({name: np.zeros(2) for name in names}))
    assert data.column_names == names
    assert list(from_arrow(data).keys()) == names


def test_nothing_and_reserved_fields():
    data = to_arrow(Batch(a=np.zeros(2), nothing=None, reserved={}, deep={"er": {}}))
    assert data.column_names == ["a", "nothing"]
    assert from_arrow(data) == Batch(a=np.zeros(2), nothing=None)
    assert from_arrow(to_arrow(Batch())) == Batch()


@pytest.mark.parametrize(
    "values",
    [["a", None, "b"], [1, None, 2], [b"x", b"", None], [[1, 2], [3], []], [None, [["a"]], []]],
    ids=["text", "numbers", "bytes", "lists", "lists of lists"],
)
def test_object_arrays(values):
    objects = np.empty(len(values), object)
    objects[:] = values
    back = from_arrow(to_arrow(Batch(o=objects))).o
    assert back.dtype == object
    assert back.tolist() == values


def test_numbers_in_object_arrays_are_what_arrow_finds():
    back = from_arrow(to_arrow(Batch(o=np.array([1, 2], object), f=np.array([1, 2.5], object))))
    assert back.o.dtype == np.int64
    assert back.f.tolist() == [1.0, 2.5]


def test_object_arrays_without_rows():
    back = from_arrow(to_arrow(Batch(o=np.empty(0, object), a=np.zeros(0)))).o
    assert isinstance(back, np.ndarray)
    assert back.shape == (0,)


@pytest.mark.parametrize(
    ("column", "right"),
    [
        (pa.array([1, None, 3]), [1, None, 3]),
        (pa.array([True, None]), [True, None]),
        (pa.array(["a", None]), ["a", None]),
        (pa.array([[1, 2], None], pa.list_(pa.int64(), 2)), [[1, 2], None]),
        (pa.array(["a", None]).dictionary_encode(), ["a", None]),
        (pa.array([dt.datetime(2020, 1, 1), None]), [dt.datetime(2020, 1, 1), None]),
    ],
    ids=["numbers", "flags", "text", "lists", "dictionary", "timestamps"],
)
def test_nulls(column, right):
    np.testing.assert_array_equal(column_of(column), np.array([*right, None], object)[:-1])


def test_nulls_among_floats_are_nan():
    np.testing.assert_array_equal(column_of(pa.array([1.0, None, 3.0])), [1, np.nan, 3])
    assert column_of(pa.array([1.0, None], pa.float16())).dtype == np.float16
    np.testing.assert_array_equal(column_of(pa.array([[1.0, None]], pa.list_(pa.float64(), 2))), [[1, np.nan]])


def test_a_column_of_nulls():
    assert column_of(pa.nulls(3)) is None


def test_times_that_are_not_there_stay_times():
    times = np.array(["2020-01-01", "NaT"], "datetime64[s]")
    back = from_arrow(to_arrow(Batch(t=times))).t
    assert back.dtype == times.dtype
    np.testing.assert_array_equal(back, times)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "b"]).dictionary_encode(),
        pa.array(["a", "b"], pa.large_string()),
        pa.array(["a", "b"], pa.string_view()),
        pa.chunked_array([["a"], ["b"]]),
        pa.chunked_array([["a"], ["b"]]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_text_in_every_form(column):
    assert column_of(column).tolist() == ["a", "b"]


def test_dictionaries_of_numbers_are_numbers():
    assert column_of(pa.array([7, 8, 7]).dictionary_encode()).dtype == np.int64


def test_chunks_are_put_together():
    numbers = table(pa.chunked_array([[1, 2], [], [3]]))
    assert column_of(numbers["c"]).tolist() == [1, 2, 3]
    batch = Batch(a=np.arange(3), cam=np.ones((3, 2, 2)), o=np.array(list("abc"), object), n={"x": np.arange(3.0)})
    twice = from_arrow(pa.concat_tables([to_arrow(batch), to_arrow(batch)]))
    assert twice == Batch.cat([batch, batch])


@given(held(rows=4), st.integers(0, 4), st.integers(0, 4))
def test_slices_of_tables(batch, start, length):
    assert from_arrow(to_arrow(batch).slice(start, length)) == batch[start : start + length]


def test_slices_are_shared():
    array = np.arange(24.0).reshape(4, 3, 2)
    back = from_arrow(to_arrow(Batch(a=array, b={"c": array[:, 0, 0].copy()})).slice(1, 2))
    assert np.shares_memory(back.a, array)
    assert back.a.tolist() == array[1:3].tolist()
    assert back.b.c.tolist() == array[1:3, 0, 0].tolist()


def test_empty_tables_keep_dtypes():
    schema = pa.schema([("a", pa.float32()), ("n", pa.struct([("x", pa.int8())])), ("v", pa.list_(pa.int16(), 3))])
    batch = from_arrow(schema.empty_table())
    assert batch == Batch(a=np.zeros(0, np.float32), n={"x": np.zeros(0, np.int8)}, v=np.zeros((0, 3), np.int16))


def test_a_transposed_tensor():
    kind = pa.fixed_shape_tensor(pa.int64(), [2, 3], permutation=[1, 0])
    tensor = pa.ExtensionArray.from_storage(kind, pa.array([[1, 2, 3, 4, 5, 6]], pa.list_(pa.int64(), 6)))
    assert column_of(tensor).tolist() == tensor.to_numpy_ndarray().tolist()


@pytest.mark.parametrize(
    ("leaf", "text"),
    [
        (
            np.zeros(2, complex),
            r"c128\[2\]: Arrow has no complex numbers; store it as two fields, its real and its imaginary part",
        ),
        (torch.zeros(2, dtype=torch.complex64), r"torch c64\[2\]: Arrow has no complex numbers"),
        (Normal(torch.zeros(2), torch.ones(2)), r"Normal\[2\] cannot be a column of Arrow"),
        (np.array([1, "a"], object), r"obj\[2\] cannot be a column of Arrow: Could not convert 'a'"),
        (np.array([2**70, 1], object), r"obj\[2\] cannot be a column of Arrow: Python int too large"),
        (np.zeros((2, 0)), r"f64\[2,0\]: Arrow's tensors must have at least one number in every row"),
        (np.full((2, 2), None), r"obj\[2,2\]: Arrow's tensors must have at least one number in every row"),
        (np.zeros(2, np.longdouble), "cannot be a column of Arrow: Unsupported numpy type"),
        (np.zeros(2, "datetime64[h]"), "cannot be a column of Arrow: Unsupported datetime64 time unit"),
        (torch.eye(2).to_sparse(), "cannot become an array: .*dense"),
    ],
)
def test_what_arrow_has_no_type_for(leaf, text):
    with pytest.raises(LeafError, match=rf"^field 'a\.b': .*{text}"):
        to_arrow(Batch(fine=np.zeros(2), a={"b": leaf}))


def test_masked_values_are_not_made_up():
    masked = np.ma.array([1, 2, 3], mask=[False, True, False])
    assert from_arrow(to_arrow(Batch(a=masked))).a.tolist() == [1, None, 3]


@pytest.mark.parametrize("batch", [Batch({"\ud800": np.zeros(2)}), Batch(a={"\ud800": np.zeros(2)})])
def test_a_name_that_is_no_text(batch):
    with pytest.raises(LeafError, match="surrogates not allowed"):
        to_arrow(batch)


def test_fields_without_equal_rows():
    with pytest.raises(StructureError, match="different lengths: b has 3, others 2"):
        to_arrow(Batch(a=np.zeros(2), b=np.zeros(3)))
    with pytest.raises(NoLengthError, match="field 'a': a scalar"):
        to_arrow(Batch(a=1.0, b=np.zeros(3)))


def test_nulls_that_no_batch_has():
    tensor = pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(pa.int64(), [2]), pa.array([[1, 2], None], pa.list_(pa.int64(), 2))
    )
    with pytest.raises(
        StructureError, match=r"field 'c': the tensor is null in some rows; replace the nulls by fill_null\(\)"
    ):
        column_of(tensor)
    with pytest.raises(
        StructureError, match=r"field 'c': the struct is null in some rows; replace the nulls by fill_null\(\)"
    ):
        column_of(pa.array([{"x": 1}, None]))


def test_two_columns_of_one_name():
    for one in (
        pa.table([[1], [2]], names=["a", "a"]),
        table(pa.StructArray.from_arrays([[1], [2]], names=["a", "a"])),
    ):
        with pytest.raises(StructureError, match="several columns have this name"):
            from_arrow(one)


@pytest.mark.parametrize("given_value", [3, {"a": [1]}, pa.array([1]), pa.record_batch({"a": [1]})])
def test_what_is_no_table(given_value):
    with pytest.raises(LeafError, match=r"from_arrow\(\) takes an Arrow Table, got "):
        from_arrow(given_value)


def test_what_is_no_batch():
    with pytest.raises(LeafError, match=r"to_arrow\(\) takes a Batch, got dict"):
        to_arrow({"a": np.zeros(2)})


@pytest.mark.parametrize("dtype", ["M8[25s]", "M8[10us]", "m8[25s]", "M8[7D]"])
def test_dates_in_steps_of_several_units(dtype):
    times = np.array([1, 2], dtype)
    back = from_arrow(to_arrow(Batch(t=times))).t
    assert (back == times).all()


def test_days_that_arrow_has_not():
    with pytest.raises(LeafError, match="field 't': .*: Arrow only has days below"):
        to_arrow(Batch(t=np.array([2**40], "M8[D]")))


def test_days_that_are_not_there_stay_days():
    days = np.array(["2020-01-01", "NaT"], "M8[D]")
    np.testing.assert_array_equal(from_arrow(to_arrow(Batch(t=days))).t, days)
    both = from_arrow(to_arrow(Batch(t=np.stack([days, days])))).t
    np.testing.assert_array_equal(both, np.stack([days, days]))


def objects_of(*values: Any) -> Batch:
    array = np.empty(len(values), object)
    array[:] = values
    batch = Batch(rows=np.arange(len(values)))
    batch.__dict__["o"] = array
    return batch


@pytest.mark.parametrize(
    "batch",
    [
        objects_of("a", b"\xff"),
        objects_of(dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)),
        objects_of(dt.datetime(2020, 1, 1, 5), dt.datetime(2020, 1, 1, 5, tzinfo=dt.timezone(dt.timedelta(hours=2)))),
        objects_of([{"a": 1}], [{"b": 2}]),
        objects_of(None, {"a": 1}),
    ],
    ids=["text and bytes", "date and time", "time zones", "dicts in lists", "dict and None"],
)
def test_objects_that_arrow_would_change(batch):
    with pytest.raises(LeafError, match="field 'o': "):
        to_arrow(batch)


def test_lists_and_arrays_of_different_lengths_are_lists():
    kept = from_arrow(to_arrow(objects_of(np.arange(2), np.arange(3)))).o
    assert kept.tolist() == [[0, 1], [0, 1, 2]]
    assert from_arrow(to_arrow(objects_of((1, 2), [3]))).o.tolist() == [[1, 2], [3]]


def test_masked_arrays_of_another_byte_order():
    masked = np.ma.array(np.array([1, 2], ">i4"), mask=[False, True])
    assert from_arrow(to_arrow(Batch(a=masked))).a.tolist() == [1, None]


class Turns(BatchRecord):
    ids: Int[Tensor, "tokens"]


class Kept(BatchRecord):
    response_ids: Int[Tensor, "N R"]
    rewards: Float[Tensor, "N"]
    uid: np.ndarray[Any, np.dtype[np.object_]]
    turns: Ragged[Turns]
    old_logp: Float[Tensor, "N R"] | None = None
    box: Float[np.ndarray[Any, Any], "N 2"]


def kept() -> Kept:
    turns = Ragged(Turns(ids=torch.arange(5)), [2, 3])
    return Kept(
        response_ids=torch.arange(6).reshape(2, 3), rewards=torch.tensor([0.5, 1.0]), uid=objects(["a", "b"]),
        turns=turns, box=np.ones((2, 2)),
    )  # fmt: skip


def test_a_record_says_what_was_a_tensor(tmp_path):
    record = kept()
    back = from_arrow(to_arrow(record), Kept)
    write_parquet(record, tmp_path / "kept.parquet")
    for one in (back, read_parquet(tmp_path / "kept.parquet", into=Kept)):
        assert type(one) is Kept
        assert one == record
        assert [type(one.rewards), type(one.turns), type(one.turns.values)] == [Tensor, Ragged, Turns]
        assert isinstance(one.turns.values.ids, Tensor)
        assert isinstance(one.box, np.ndarray)
    back.rewards[0] = 3.0  # The memory of a table is read-only; that of a tensor never is.
    assert record.rewards[0] == 0.5


def test_a_table_that_does_not_match_is_refused():
    record = Batch(kept())
    del record["rewards"]
    with pytest.raises(SchemaError, match=r"batch\.rewards +missing"):
        from_arrow(to_arrow(record), Kept)
    wrong = to_arrow(kept()).set_column(3, "turns", pa.array(["a", "b"]))
    with pytest.raises(LeafError, match="'turns': a Ragged needs a column of lists"):
        from_arrow(wrong, into=Kept)
