"""Arrays and tensors by way of DLPack, in both directions, on the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from torch.distributions import Normal

from tests.strategies import numpy_batches
from typedbatch import Batch
from typedbatch._core.lengths import leaves
from typedbatch.bridges.dlpack import from_dlpack, to_dlpack
from typedbatch.errors import FieldNameError, LeafError, SettingError

DTYPES = ("bool", "int8", "int64", "uint8", "float16", "float32", "float64", "complex64")


class Foreign:
    """An array of a library that nobody knows."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


def address(leaf: Any) -> int:
    return leaf.data_ptr() if isinstance(leaf, torch.Tensor) else leaf.ctypes.data


@given(numpy_batches(dtypes=DTYPES))
def test_numpy_to_numpy_and_torch(batch):
    fields = to_dlpack(batch)
    for into, kind in (("numpy", np.ndarray), ("torch", torch.Tensor)):
        back = from_dlpack(fields, into)
        assert back == batch
        ours = dict(leaves(back.__dict__))
        for path, leaf in leaves(batch.__dict__):
            if isinstance(leaf, np.ndarray):
                assert type(ours[path]) is kind
                assert not leaf.size or address(ours[path]) == leaf.ctypes.data, path


@given(numpy_batches(dtypes=DTYPES))
def test_torch_to_torch_and_numpy(batch):
    tensors = batch.to_torch()
    fields = to_dlpack(tensors)
    for into in ("numpy", "torch"):
        back = from_dlpack(fields, into)
        assert back == tensors
        ours = dict(leaves(back.__dict__))
        for path, leaf in leaves(tensors.__dict__):
            if isinstance(leaf, torch.Tensor) and leaf.numel():
                assert address(ours[path]) == leaf.data_ptr(), path


def test_arrays_of_any_library():
    array = np.arange(6.0).reshape(3, 2)
    batch = from_dlpack({"a": Foreign(array), "b": {"c": Foreign(torch.arange(3))}})
    assert np.shares_memory(batch.a, array)
    assert batch == Batch(a=array, b={"c": np.arange(3)})


def test_views_are_shared_with_their_strides():
    array = np.arange(24.0).reshape(4, 6)
    for view in (array[::2], array.T, array[1:, 2], array[:, ::-1]):
        assert from_dlpack({"a": view}).a.tolist() == view.tolist()
        assert np.shares_memory(from_dlpack({"a": view}).a, array)


def test_read_only_memory():
    array = np.arange(3.0)
    array.flags.writeable = False
    shared = from_dlpack(to_dlpack(Batch(a=array))).a
    assert np.shares_memory(shared, array)
    assert not shared.flags.writeable
    with pytest.raises(LeafError, match=r"field 'b\.a': f64\[3\] cannot be shared with torch: .*read"):
        from_dlpack({"b": {"a": array}}, "torch")


def test_gradients_are_cut():
    tensor = torch.ones(3, requires_grad=True)
    fields = to_dlpack(Batch(a={"b": tensor * 1}, c=tensor))
    assert not fields["a"]["b"].requires_grad
    assert fields["c"].data_ptr() == tensor.data_ptr()
    assert tensor.requires_grad
    assert from_dlpack(fields).c.tolist() == [1, 1, 1]


def test_a_tensor_with_a_gradient_is_named():
    with pytest.raises(LeafError, match=r"field 'a\.b': torch f32\[3\] cannot be shared with numpy: .*grad"):
        from_dlpack({"a": {"b": torch.ones(3, requires_grad=True)}})


def test_what_it_gives():
    batch = Batch(a=np.zeros(2), b={"c": torch.zeros(2), "d": {}})
    fields = to_dlpack(batch)
    assert fields["a"] is batch.a
    assert list(fields["b"]) == ["c", "d"]
    assert fields["b"]["d"] == {}
    assert from_dlpack(fields) == batch
    assert from_dlpack({}) == Batch()
    assert to_dlpack(Batch()) == {}


def test_bfloat16_goes_to_torch_alone():
    tensor = torch.ones(3, dtype=torch.bfloat16)
    assert from_dlpack({"a": tensor}, "torch").a.data_ptr() == tensor.data_ptr()
    with pytest.raises(LeafError, match=r"field 'a': torch bf(loat)?16\[3\] cannot be shared with numpy: "):
        from_dlpack({"a": tensor})


@pytest.mark.parametrize(
    "leaf",
    [
        np.zeros(2, "datetime64[s]"), np.array(["a", None], object), np.zeros(2, [("x", "f4")]), "text", None,
        Normal(torch.zeros(2), torch.ones(2)),
    ],
    ids=["dates", "objects", "structured", "text", "None", "distribution"],
)  # fmt: skip
def test_what_is_no_array_of_numbers(leaf):
    with pytest.raises(
        LeafError, match=r"field 'a\.b': .* cannot be exported by DLPack, which supports only plain arrays of numbers"
    ):
        to_dlpack(Batch(fine=np.zeros(2), a={"b": leaf}))


@pytest.mark.parametrize("dtype", [">f8", np.longdouble])
@pytest.mark.parametrize("into", ["numpy", "torch"])
def test_numbers_that_cannot_be_shared(dtype, into):
    with pytest.raises(LeafError, match="field 'a': "):
        from_dlpack(to_dlpack(Batch(a=np.zeros(2, dtype))), into)


@pytest.mark.parametrize("value", [[1, 2], 3.0, "text", None, Batch(a=np.zeros(2))])
def test_values_without_dlpack(value):
    with pytest.raises(LeafError, match=r"field 'a\.b': .* has no __dlpack__"):
        from_dlpack({"a": {"b": value}})


def test_sparse_tensors_are_named():
    with pytest.raises(LeafError, match="field 'a': .* cannot be shared with torch: "):
        from_dlpack({"a": torch.eye(2).to_sparse()}, "torch")


def test_names_are_strings():
    with pytest.raises(FieldNameError, match="field names must be strings"):
        from_dlpack({1: np.zeros(2)})  # type: ignore[dict-item]


def test_settings():
    with pytest.raises(SettingError, match="into= is 'numpy' or 'torch', got 'jax'"):
        from_dlpack({}, "jax")  # type: ignore[arg-type]
    with pytest.raises(LeafError, match=r"to_dlpack\(\) takes a Batch, got dict"):
        to_dlpack({"a": np.zeros(2)})
    with pytest.raises(LeafError, match=r"from_dlpack\(\) takes .*, got "):
        from_dlpack([np.zeros(2)])  # type: ignore[arg-type]


def test_arrays_that_tensors_cannot_share():
    """Torch ends the process over strides below zero, and forgets masks."""
    masked = np.ma.array([1.0, 2.0], mask=[0, 1])
    with pytest.raises(LeafError, match=r"field 'a': f64\[3\] cannot be shared with torch: it has negative strides"):
        from_dlpack({"a": np.arange(3.0)[::-1]}, "torch")
    assert from_dlpack({"a": np.arange(3.0)[::-1]}).a.tolist() == [2, 1, 0]
    for into in ("numpy", "torch"):
        with pytest.raises(LeafError, match="its mask would be lost"):
            from_dlpack({"a": masked}, into)
    with pytest.raises(LeafError, match="field 'a': .* cannot be exported by DLPack"):
        to_dlpack(Batch(a=masked))


def test_what_torch_has_put_off_is_done_first():
    batch = Batch(negative=torch.tensor([1 + 2j]).conj().imag, conjugate=torch.tensor([1 + 2j]).conj())
    assert from_dlpack(to_dlpack(batch)).negative.tolist() == [-2]
    assert from_dlpack(to_dlpack(batch), "torch").conjugate.tolist() == [1 - 2j]


def test_an_array_of_a_library_that_is_half_one():
    class Half:
        def __dlpack__(self) -> None: ...

    with pytest.raises(LeafError, match="field 'a': Half cannot be shared with"):
        from_dlpack({"a": Half()}, "torch")
