"""Batches come back as they were, with their meta, and need little memory."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.files.helpers import (
    ENDINGS,
    assert_same,
    batches_to_keep,
    by_hand,
    cells,
    entry,
    hdf5_by_hand,
    memory_for,
    refused,
    through_file,
    with_document,
)
from tests.strategies import batches
from typedbatch import Batch, MultiAgentBatch, SampleBatch
from typedbatch.bridges.arrow import from_arrow, to_arrow
from typedbatch.bridges.tensordict import from_tensordict, to_tensordict
from typedbatch.errors import StorageError
from typedbatch.files import load, save


@pytest.fixture(params=ENDINGS)
def ending(request: Any) -> Any:
    return request.param


@given(batches_to_keep, st.booleans())
def test_every_batch_comes_back_from_safetensors(batch, mmap):
    assert_same(through_file(batch, ".safetensors", mmap=mmap), batch)


@given(batches_to_keep, st.sampled_from([None, "gzip", "lzf"]))
def test_every_batch_comes_back_from_hdf5(batch, compression):
    assert_same(through_file(batch, ".h5", compression=compression), batch)


@given(batches())
def test_sets_and_distributions_come_back_with_pickles(batch):
    assert through_file(batch, ".safetensors", allow_pickle=True) == batch


DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
DTYPES += [">i2", ">i4", ">i8", ">u2", ">u4", ">u8", ">f2", ">f4", ">f8", ">c8", ">c16"]
DTYPES += ["M8[D]", "M8[ns]", "M8[25s]", ">M8[ms]", "M8", "m8[us]", "m8[Y]", ">m8[h]", "m8"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_keep_dtype_byte_order_and_shape(dtype, ending):
    batch = Batch()
    for shape in ((), (0,), (1,), (5,), (2, 0, 3), (3, 4), (2, 1, 3)):
        count = int(np.prod(shape))
        array = np.random.default_rng(count).integers(0, 256, (count, 16), np.uint8)
        array = array.astype("i1").sum(1).astype("i8").astype(dtype).reshape(shape)
        batch[f"plain {shape}"] = array
        batch[f"Fortran {shape}"] = np.asfortranarray(array)
        batch[f"steps {shape}"] = np.repeat(array, 2, -1)[..., ::-2] if shape else array
        batch[f"transposed {shape}"] = array.T
        batch[f"spread {shape}"] = np.broadcast_to(array, (2, *shape))
    read = through_file(batch, ending)
    assert_same(read, batch)
    assert all(array.flags.c_contiguous and array.flags.writeable for array in read.__dict__.values())


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8"])
def test_every_bit_of_a_float_is_kept(dtype, ending):
    size = np.dtype(dtype).itemsize
    bits = np.random.default_rng(0).integers(0, 256, 4000 * size, np.uint8)
    array = np.concatenate([bits.view(dtype), np.array([np.nan, -np.nan, np.inf, -np.inf, -0.0], dtype)])
    assert_same(through_file(Batch(a=array), ending).a, array)


@pytest.mark.filterwarnings("ignore:The 'generic' unit:DeprecationWarning")  # numpy 2.5, of NaT
def test_numpy_scalars_stay_scalars(ending):
    batch = Batch()
    scalars = [np.float16(1.5), np.bool_(True), np.int8(-1), np.uint64(2**64 - 1), np.complex64(1j), np.complex128(2j)]
    scalars += [np.datetime64("2020", "M"), np.datetime64("NaT"), np.timedelta64(3, "ns"), np.float64("nan")]
    for place, scalar in enumerate(scalars):
        batch.__dict__[str(place)] = scalar  # a Batch makes arrays of them, but rows of one hold them
    assert_same(through_file(batch, ending), batch)


TENSORS = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32]
TENSORS += [torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64]
TENSORS += [torch.complex128, torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.parametrize("dtype", TENSORS, ids=str)
def test_tensors_keep_dtype_and_shape(dtype, ending):
    batch = Batch()
    for shape in ((), (0,), (2, 3), (2, 0), (3, 1, 2)):
        count = int(np.prod(shape))
        tensor = torch.arange(count).reshape(shape).float().to(dtype)
        batch[f"plain {shape}"] = tensor
        batch[f"transposed {shape}"] = tensor.permute(tuple(range(len(shape)))[::-1])
        batch[f"spread {shape}"] = tensor.expand(2, *shape)
    assert_same(through_file(batch, ending), batch)


def test_gradients_are_cut_but_asked_for_again(ending):
    parameter = torch.nn.Parameter(torch.ones(2))
    half = torch.ones(1, dtype=torch.bfloat16, requires_grad=True)
    batch = Batch(p=parameter, q=parameter * 2, half=half, none=torch.ones(1))
    read = through_file(batch, ending)
    assert [tensor.requires_grad for tensor in read.__dict__.values()] == [True, True, True, False]
    assert all(tensor.is_leaf and type(tensor) is torch.Tensor for tensor in read.__dict__.values())
    assert read.q.tolist() == [2, 2]
    read.p.sum().backward()


def test_conjugates_and_negatives_are_made_real(ending):
    tensor = torch.tensor([1 + 2j, 3 - 1j])
    read = through_file(Batch(conj=tensor.conj(), neg=tensor.conj().imag), ending)
    assert read.conj.tolist() == [1 - 2j, 3 + 1j]
    assert read.neg.tolist() == [-2, 1]


def test_object_arrays_keep_every_cell(ending):
    grid = np.empty((2, 1, 2), object)
    grid[0, 0, 0], grid[1, 0, 1] = {"a": [1, {"b": None}]}, [[], {}]
    batch = Batch(
        plain=cells(None, True, 1, 1.0, -0.0, "", "é\0", 2**100, float("inf"), float("nan"), "\ud800"),
        nested=cells([1, [2, []]], {"": {}}, None),
        none=np.array(None, object),
        empty=np.empty((0, 3), object),
        text=["a", "bc"],
        ragged=[[1], [1, 2]],
    )
    batch.__dict__["grid"] = grid
    assert_same(through_file(batch, ending), batch)


def test_numbers_of_numpy_inside_objects_come_back_equal_as_those_of_python(ending):
    """As infos of environments hold them; JSON knows no other numbers."""
    batch = Batch(o=cells(np.float32(0.1), np.int8(3), {"x": [np.float64(0.1), np.bool_(True), np.uint64(2**63)]}))
    read = through_file(batch, ending).o
    assert [type(cell) for cell in read] == [float, int, dict]
    assert read.tolist() == batch.o.tolist()


def test_a_mask_is_not_lost(ending):
    masked = np.ma.array([1, 2, 3], mask=[0, 1, 0])
    try:
        read = through_file(Batch(a=masked), ending)
    except ValueError:
        return
    assert np.ma.getmaskarray(read.a).tolist() == [False, True, False]


@pytest.mark.parametrize("value", ["", "text", 'é\0\n"\\', "\ud800", None, Batch(), Batch(inner=Batch())], ids=repr)
def test_text_none_and_reserved_fields(value, ending):
    batch = Batch(rows=np.arange(2))
    batch.__dict__["it"] = value
    assert_same(through_file(batch, ending), batch)


def test_a_batch_without_fields(ending):
    assert_same(through_file(Batch(), ending), Batch())


ODD = ["", ".", "..", "a.b", "a", "__metadata__", "__metadata___", "field", "typedbatch", "/", "a/b", "../x", "日本"]
ODD += ["\0", "a\0b", " ", "%", "%2F", "batch", "class", "json", "pickle", "__class__", "__dict__", "items", "n" * 999]
ODD += ["%252F", "//"]


def test_any_text_is_a_name_at_any_level(ending):
    batch = Batch({name: Batch({inner: np.array([i, j]) for j, inner in enumerate(ODD)}) for i, name in enumerate(ODD)})
    assert_same(through_file(batch, ending), batch)


@pytest.mark.parametrize("order", [1, -1])
def test_names_with_dots_are_not_taken_for_nested_ones(order, ending):
    fields = {"a": Batch({"b": np.arange(1), "b.c": np.arange(2), "b_": np.arange(3)}), "a.b": np.arange(4)}
    fields |= {"a.b_": np.arange(5), "a.b.c": np.arange(6), "": np.arange(7), "field": np.arange(8)}
    batch = Batch(dict(list(fields.items())[::order]))
    assert_same(through_file(batch, ending), batch)


def test_many_fields_keep_their_order(ending):
    names = np.random.default_rng(0).permutation(500).astype(str)
    batch = Batch({name: np.zeros(1, ["i1", "f8", "u2"][i % 3]) for i, name in enumerate(names)})
    assert list(through_file(batch, ending).__dict__) == list(names)


class Mine(SampleBatch):
    """A class that files do not know."""


def sample_batch(rows: int) -> SampleBatch:
    return SampleBatch(obs=np.arange(rows * 1.0), eps_id=np.zeros(rows, int), infos=cells(*[{"a": 1}, None][:rows]))


def multi_agent_batch() -> MultiAgentBatch:
    return MultiAgentBatch({"left": sample_batch(2), "a.b": SampleBatch(obs=torch.ones(3))}, 3)


@pytest.mark.parametrize("make", [lambda: sample_batch(2), multi_agent_batch, lambda: MultiAgentBatch({}, 0)])
def test_classes_come_back(make, ending):
    assert_same(through_file(make(), ending), make())


@pytest.mark.parametrize("outer", [Batch, SampleBatch])
def test_classes_inside_others_come_back(outer, ending):
    batch = outer(train=sample_batch(2), deep=Batch(both=multi_agent_batch()), plain=Batch(a=np.ones(2)))
    assert_same(through_file(batch, ending), batch)


def test_a_class_of_ones_own_comes_back_as_the_one_it_extends(ending):
    assert type(through_file(Mine(obs=np.arange(2)), ending)) is SampleBatch


def test_a_multi_agent_batch_with_a_field_of_its_own_is_refused(ending):
    batch = multi_agent_batch()
    batch.__dict__["note"] = np.arange(2)
    with pytest.raises(StorageError, match="field 'deep': .*policy_batches and count, got .*note"):
        through_file(Batch(deep=batch), ending)


@pytest.mark.parametrize("name", ["a.safetensors", "a.h5", "a.hdf5", "a b.{0}.é.h5", "{x}.safetensors", "..a.h5"])
@pytest.mark.parametrize("kind", [str, Path])
def test_paths_are_text_or_path_objects(name, kind, tmp_path):
    save(Batch(a=[1]), kind(tmp_path / name))
    assert load(kind(tmp_path / name)).a.tolist() == [1]
    assert [one.name for one in tmp_path.iterdir()] == [name]


def test_a_relative_path_and_a_path_like_object(tmp_path, monkeypatch, ending):
    class Somewhere(os.PathLike[str]):
        def __fspath__(self) -> str:
            return f"there{ending}"

    monkeypatch.chdir(tmp_path)
    save(Batch(a=[1]), Somewhere())
    assert load(f"there{ending}").a.tolist() == load(Somewhere()).a.tolist() == [1]


def test_tensors_go_where_they_are_wanted(ending):
    batch = Batch(t=torch.ones(2, dtype=torch.bfloat16), a=np.ones(2))
    read = through_file(batch, ending, device="meta")
    assert (read.t.device.type, read.t.dtype) == ("meta", torch.bfloat16)
    assert type(read.a) is np.ndarray
    assert through_file(batch, ending, device=torch.device("cpu")).t.device.type == "cpu"


@pytest.mark.parametrize("compression", ["gzip", "lzf"])
def test_compression_makes_an_hdf5_file_smaller(compression, tmp_path):
    batch = Batch(a=np.zeros(100_000), t=torch.zeros(100_000), scalar=np.float64(1), none=np.zeros((0, 2)))
    save(batch, tmp_path / "plain.h5")
    save(batch, tmp_path / "small.h5", compression=compression)
    assert_same(load(tmp_path / "small.h5"), batch)
    assert (tmp_path / "plain.h5").stat().st_size > 10 * (tmp_path / "small.h5").stat().st_size


def test_saving_changes_nothing_in_the_batch(ending):
    array = np.asfortranarray(np.ones((2, 3), ">f4"))
    array.flags.writeable = False
    tensor = torch.ones(2, 3).T
    batch = Batch(a=array, t=tensor, inner=Batch(b=array))
    through_file(batch, ending)
    assert batch.a is array
    assert batch.t is tensor
    assert list(batch.__dict__) == ["a", "t", "inner"]


def test_what_is_read_is_writeable_and_on_its_own(ending, tmp_path):
    save(Batch(a=np.zeros(2), t=torch.zeros(2)), tmp_path / f"a{ending}")
    one, two = load(tmp_path / f"a{ending}"), load(tmp_path / f"a{ending}")
    one.a[0], one.t[0] = 1, 1
    assert two.a.tolist() == two.t.tolist() == load(tmp_path / f"a{ending}").a.tolist() == [0, 0]


def sampled(**more: Any) -> Batch:
    return Batch(a=np.arange(3), n={"x": np.ones(3)}, meta={"step": 3, "stop": ["a", None], "deep": {"k": 1.5}, **more})


@pytest.mark.parametrize("ending", ["safetensors", "h5"])
def test_a_file_keeps_it_arrays_included(tmp_path, ending):
    batch = sampled(scale=np.ones((2, 2), np.float32))
    save(batch, tmp_path / f"b.{ending}")
    assert load(tmp_path / f"b.{ending}") == batch


@pytest.mark.parametrize("ending", ["safetensors", "h5"])
def test_what_a_file_cannot_keep_is_named_and_no_file_is_there(tmp_path, ending):
    with pytest.raises(StorageError, match=r"meta\.lock'.*lock cannot be written as JSON"):
        save(sampled(lock=threading.Lock()), tmp_path / f"b.{ending}")
    assert list(tmp_path.iterdir()) == []


def test_a_nested_batch_keeps_its_own_in_safetensors_and_hdf5_refuses_it(tmp_path):
    batch = Batch(n=Batch(x=np.ones(2), meta={"step": 1}))
    save(batch, tmp_path / "b.safetensors")
    assert load(tmp_path / "b.safetensors").n.meta == {"step": 1}
    with pytest.raises(StorageError, match="the meta of a nested batch cannot be stored in an HDF5 file"):
        save(batch, tmp_path / "b.h5")


def test_tensordicts_and_tables_keep_it():
    batch = sampled()
    kept = to_tensordict(batch)
    assert from_tensordict(kept).meta == batch.meta
    assert from_tensordict(kept[:2]).meta == batch.meta
    assert from_arrow(to_arrow(batch)) == batch
    with pytest.raises(StorageError, match=r"meta\.scale"):
        to_arrow(sampled(scale=np.ones(2)))


@pytest.fixture
def path(tmp_path: Any) -> Any:
    return tmp_path / "batch.safetensors"


def test_a_shape_of_very_many_numbers_is_refused_at_once(path):
    by_hand(path, {"a": entry("U8", [9] * 1_000_000, 0, 0)})
    code = """
import resource, sys
from typedbatch.errors import StorageError
from typedbatch.files import load
used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
resource.setrlimit(resource.RLIMIT_CPU, (used + 20, used + 21))  # it takes parts of a second, or minutes
try:
    load(sys.argv[1])
except StorageError:
    print("refused")
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "refused\n")


def many_times(node: Any, count: int) -> dict[str, Any]:
    return {"version": 1, "crc32": {}, "tree": {"batch": {str(i): node for i in range(count)}, "class": "Batch"}}


@pytest.mark.parametrize(
    "node",
    [{"array": "a", "order": ">"}, {"tensor": "a", "torch": "float32", "requires_grad": False}, {"array": "a"}],
    ids=["order", "tensor", "array"],
)
@pytest.mark.parametrize("mmap", [False, True])
def test_one_array_does_not_become_many(node, mmap, path):
    size = 400_000
    entries = {"o": entry("U8", [1], 0, 1), "a": entry("F32", [size // 4], 1, 1 + size)}
    with_document(path, many_times(node, 100), entries, bytes(1 + size))
    assert memory_for(path, mmap=mmap) < 10 * size


def test_claims_without_data_take_no_memory(path):
    for shape, end in (([10**9], 10**9), ([10**9], 0), ([10**12, 0], 0)):
        by_hand(path, {"a": entry("U8", shape, 0, end)})
        assert memory_for(path) < 100_000
        with_document(path, many_times({"array": "a"}, 3), {"a": entry("U8", shape, 0, end)})
        assert memory_for(path) < 100_000


HUGE: dict[str, Any] = {
    "array": {},
    "scalar": {"__data_type__": b"scalar"},
    "tensor": {"__data_type__": b"Tensor", "dtype": b"torch.uint8"},
    "JSON": {"__data_type__": b"json"},
    "objects": {"__data_type__": b"json_ndarray", "shape": (1,)},
}


@pytest.mark.parametrize("kind", HUGE)
def test_data_that_an_hdf5_file_claims_but_does_not_hold_take_no_memory(kind, tmp_path):
    def fill(group: Any) -> None:
        dataset = group.create_dataset("it", (200_000_000,), "u1", chunks=(1_000_000,))
        for name, value in HUGE[kind].items():
            dataset.attrs[name] = value

    hdf5_by_hand(tmp_path / "a.h5", fill)
    assert memory_for(tmp_path / "a.h5") < 10_000_000
    refused(tmp_path / "a.h5")


def test_one_dataset_in_many_places_does_not_become_many(tmp_path):
    def fill(group: Any) -> None:
        group.create_dataset("it", data=np.zeros(400_000, "u1"))
        for number in range(100):
            group[f"again {number}"] = group["it"]

    hdf5_by_hand(tmp_path / "a.h5", fill)
    assert memory_for(tmp_path / "a.h5") < 4_000_000
