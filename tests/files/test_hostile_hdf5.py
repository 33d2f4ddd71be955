"""HDF5 files that somebody has made up: an error of the library's own, little memory, and nothing executed."""

from __future__ import annotations

import contextlib
import json
import zlib
from typing import Any

import h5py
import numpy as np
import pytest

from tests.files.helpers import hdf5_by_hand, memory_for, refused
from typedbatch import Batch
from typedbatch.errors import SettingError, StorageError
from typedbatch.files import load, save
from typedbatch.files.hdf5 import from_hdf5


@pytest.fixture
def path(tmp_path: Any) -> Any:
    return tmp_path / "batch.safetensors"


@pytest.mark.parametrize("document", [[], 5, None, "text", {}, {"version": 1}, {"class": "Batch"}], ids=repr)
def test_an_hdf5_document_that_cannot_be_is_refused(document, tmp_path):
    hdf5_by_hand(tmp_path / "a.h5", lambda group: None, document)
    if document is not None:
        refused(tmp_path / "a.h5")


@pytest.mark.parametrize("cls", ["os.system", "", None, 5, ["Batch"], "MultiAgentBatch"], ids=repr)
def test_an_hdf5_class_that_cannot_be_is_refused(cls, tmp_path):
    refused(hdf5_by_hand(tmp_path / "a.h5", lambda group: None, {"version": 1, "class": cls}))


@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff", b"[" * 50_000, 5, [1, 2], h5py.Empty("S1"), "é"], ids=lambda x: f"{x!r:.9}"
)
def test_an_hdf5_attribute_that_is_no_document_is_refused(text, tmp_path):
    hdf5_by_hand(tmp_path / "a.h5", lambda group: group.file.attrs.__setitem__("typedbatch", text))
    refused(tmp_path / "a.h5")


def elsewhere(file: h5py.File, how: str, other: str) -> None:
    if how == "external link":
        file["batch"] = h5py.ExternalLink(other, "/batch")
    elif how == "soft link":
        file["batch"] = h5py.SoftLink("/other")
    elif how == "dataset":
        file["batch"] = np.arange(3)
    elif how == "dict":
        file.create_group("batch")
    elif how == "type":
        file["batch"] = np.dtype("f8")
    elif how == "the root":
        file["batch"] = file["/"]


@pytest.mark.parametrize("how", ["external link", "soft link", "dataset", "dict", "type", "the root", "nothing"])
def test_an_hdf5_file_without_a_batch_of_its_own_is_refused(how, tmp_path):
    save(Batch(secret=np.arange(3)), tmp_path / "other.h5")
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.attrs["typedbatch"] = np.bytes_(json.dumps({"version": 1, "class": "Batch"}))
        file.create_group("other").attrs["__data_type__"] = np.bytes_("Batch")
        elsewhere(file, how, str(tmp_path / "other.h5"))
    refused(path)


def test_an_hdf5_file_of_others_is_refused_with_a_hint(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.arange(3)
    assert "typedbatch.files.hdf5.from_hdf5 reads other files" in refused(tmp_path / "a.h5")


def test_odd_attributes_of_an_hdf5_batch_are_leaves_or_refused(tmp_path):
    def fill(group: Any) -> None:
        group.attrs["reference"] = group.file.ref
        group.attrs["empty"] = h5py.Empty("f4")
        group.attrs["texts"] = ["a", "b"]

    hdf5_by_hand(tmp_path / "a.h5", fill)
    try:
        found = load(tmp_path / "a.h5").__dict__.values()
    except StorageError:
        return
    assert not any(type(value).__module__.startswith("h5py") for value in found)


def with_filters(*filters: int) -> Any:
    """A dataset of 1000 bytes behind filters, whose one chunk is zlib's of zlib's of 60 MB."""

    def fill(group: Any) -> None:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((1000,))
        for one in filters:
            properties.set_filter(one, h5py.h5z.FLAG_OPTIONAL, (9,))
        space = h5py.h5s.create_simple((1000,))
        found = h5py.h5d.create(group.id, b"it", h5py.h5t.NATIVE_UINT8, space, dcpl=properties)
        found.write_direct_chunk((0,), zlib.compress(zlib.compress(bytes(60_000_000), 9), 9))

    return fill


@pytest.mark.parametrize("filters", [(1, 1), (1, 32000), (300,), (1, 4)], ids=str)
def test_filters_that_nobody_writes_are_not_run(filters, tmp_path):
    """One behind another there is no bound; for one that it does not know, HDF5 looks for a library to load."""
    hdf5_by_hand(tmp_path / "a.h5", with_filters(*filters))
    assert memory_for(tmp_path / "a.h5") < 1_000_000
    assert "unsupported filters" in refused(tmp_path / "a.h5")


def test_a_text_of_many_places_is_not_read(tmp_path):
    def dataset(group: Any) -> None:
        group.create_dataset("it", (400,), h5py.string_dtype("ascii")).attrs["__data_type__"] = np.bytes_("json")

    def attribute(group: Any) -> None:
        group.attrs.create("it", [group.ref] * 400, dtype=h5py.ref_dtype)

    for fill, reason in (
        (dataset, "expected JSON as uint8 or as one string, got an array of object"),
        (attribute, "expected an attribute 'it' of numbers or text, got an array of objects"),
    ):
        hdf5_by_hand(tmp_path / "a.h5", fill)
        assert reason in refused(tmp_path / "a.h5")


def test_a_text_to_which_many_places_refer_needs_bounded_memory(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        one = file.create_dataset("one", (1,), h5py.string_dtype(), chunks=(1,))
        one[0] = "x" * 60_000
        _, reference = one.id.read_direct_chunk((0,))
        many = file.create_dataset("many", (2000,), h5py.string_dtype(), chunks=(2000,))
        many.id.write_direct_chunk((0,), reference * 2000)
    with pytest.raises(StorageError, match="more data than a file of this size can contain"):
        from_hdf5(tmp_path / "a.h5")


def test_damage_that_the_group_alone_shows_is_an_error_of_the_librarys_own(tmp_path):
    path = tmp_path / "a.h5"
    save(Batch(a=np.arange(3), b={"c": [1.0]}), path)
    data, rng, refusals = path.read_bytes(), np.random.default_rng(0), 0
    for place in rng.choice(len(data), 200, replace=False):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with contextlib.suppress(OSError, KeyError, RuntimeError), h5py.File(path) as file:
            group = file["batch"]
            try:
                from_hdf5(group)
            except StorageError:
                refusals += 1
    assert refusals > 20


def test_no_such_device_is_not_called_damage(tmp_path):
    save(Batch(a=np.arange(3)), tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file, pytest.raises(SettingError, match="torch has no device 'nonsense'"):
        from_hdf5(file["batch"], "nonsense")
