"""HDF5 files: batches and buffers come back as they were, what cannot be written says so, and nothing is executed."""

from __future__ import annotations

import json
import os
import pickle
import random
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tianshou.data
import torch
from hypothesis import settings
from tianshou.data.utils.converter import to_hdf5 as tianshou_to_hdf5

from tests.buffers.helpers import held, step, steps
from tests.buffers.model import as_batch, as_rows, row
from tests.files.helpers import Evil, assert_same
from typedbatch import Batch, errors
from typedbatch.buffers import (
    CachedReplayBuffer,
    HERReplayBuffer,
    HERVectorReplayBuffer,
    PrioritizedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
)
from typedbatch.buffers.state import state_of
from typedbatch.errors import StorageError, StructureError
from typedbatch.files import _hdf5
from typedbatch.files.hdf5 import from_hdf5, to_hdf5


def written(fields: Any, compression: str | None = None) -> Any:
    """Return the fields after they were written to a file and read back."""
    with h5py.File.in_memory() as file:
        to_hdf5(fields, file, compression)
        file.flush()
        return from_hdf5(file)


@pytest.mark.parametrize("value", [2**100, -0.0, True, None, "\ud800", np.zeros((2, 0), "S3")], ids=ascii)
def test_values_of_a_dict_come_back_as_they_were(value):
    assert_same(written({"//": value})["//"], value)


def test_long_doubles_come_back():
    read = written({"a": np.ones(2, np.longdouble)})["a"]
    assert (read.dtype, read.tolist()) == (np.longdouble, [1, 1])


def test_a_batch_comes_back_as_a_batch_and_a_dict_as_a_dict():
    read = written({"b": Batch(d=Batch()), "d": {"b": Batch(), "e": {}}})
    assert type(read) is dict
    assert type(read["b"]) is type(read["b"].d) is type(read["d"]["b"]) is Batch
    assert type(read["d"]) is type(read["d"]["e"]) is dict


def test_a_single_dataset_is_read(tmp_path):
    with h5py.File(tmp_path / "file", "w") as file:
        to_hdf5({"a": np.arange(3)}, file)
        assert from_hdf5(file["a"]).tolist() == [0, 1, 2]


@pytest.mark.parametrize("value", [print, {1}, (1, 2), 1j, torch.eye(2).to_sparse()], ids=repr)
def test_what_cannot_be_written_is_refused_by_name(value):
    with pytest.raises(errors.StorageError, match=r"'outer\.in/ner\.it'"), h5py.File.in_memory() as file:
        to_hdf5({"fine": 1, "outer": {"in/ner": {"it": value}}}, file)


def test_an_unknown_compression_is_refused():
    with pytest.raises(errors.StorageError), h5py.File.in_memory() as file:
        to_hdf5({"a": np.zeros(3)}, file, "zip")


def reward(achieved: Any, desired: Any) -> Any:
    return -np.abs(achieved - desired).sum(-1)


BUFFERS = {
    "ReplayBuffer": lambda: ReplayBuffer(5, stack_num=2, ignore_obs_next=True, random_seed=None),
    "VectorReplayBuffer": lambda: VectorReplayBuffer(10, 2, stack_num=2),
    "PrioritizedReplayBuffer": lambda: PrioritizedReplayBuffer(5, 0.6, 0.4, weight_norm=False),
    "PrioritizedVectorReplayBuffer": lambda: PrioritizedVectorReplayBuffer(10, 2, 0.6, 0.4),
    "CachedReplayBuffer": lambda: CachedReplayBuffer(ReplayBuffer(6), 2, 4),
    "HERReplayBuffer": lambda: HERReplayBuffer(5, reward, 3),
    "HERVectorReplayBuffer": lambda: HERVectorReplayBuffer(10, 2, reward, 3, future_k=4),
}


def add(buffer: Any, number: int, **more: Any) -> Any:
    goal = np.full(2, number, float)
    obs = {"achieved_goal": goal, "desired_goal": goal + 1} if "HER" in type(buffer).__name__ else goal
    one = {"obs": obs, "act": number, "rew": 1.0, "terminated": number % 3 == 2, "truncated": False, "obs_next": obs}
    batch = Batch(one, **more)
    return buffer.add(Batch.stack([batch, batch]) if state_of(buffer).many else batch)


def load(buffer: Any, path: Path, **more: Any) -> Any:
    if "HER" in type(buffer).__name__:
        more["compute_reward_fn"] = reward
    return type(buffer).load_hdf5(path, **more)


def filled(name: str, count: int) -> Any:
    buffer = BUFFERS[name]()
    for number in range(count):
        add(buffer, number, text=f"row {number}", t=torch.full((2,), number, dtype=torch.bfloat16))
    if hasattr(buffer, "update_weight") and count:
        buffer.update_weight(buffer.sample_indices(0), np.arange(len(buffer)) + 1.0)
        buffer.set_beta(0.7)
    return buffer


@pytest.mark.parametrize("count", [0, 4, 13])
@pytest.mark.parametrize("name", BUFFERS)
def test_every_buffer_comes_back_as_it_was_and_goes_on_alike(name, count, tmp_path):
    buffer = filled(name, count)
    for _ in range(2):
        buffer.save_hdf5(tmp_path / "file")
        again = load(buffer, tmp_path / "file")
        assert type(again) is type(buffer)
        assert again.options == buffer.options
        assert len(again) == len(buffer)
        for _ in range(8):
            added, expected = (
                add(one, 20 + len(one), text="new", t=torch.zeros(2).bfloat16()) for one in (again, buffer)
            )
            assert all(np.array_equal(one, other) for one, other in zip(added, expected, strict=True))
            (sampled, slots), (rows, expected_slots) = again.sample(3), buffer.sample(3)
            assert slots.tolist() == expected_slots.tolist()
            assert sampled == rows
        assert again[:] == buffer[:]
        assert [type(text) for text in again[:].text] == [str] * len(buffer)
        assert again.t.dtype == torch.bfloat16


def test_a_buffer_without_observations_comes_back(tmp_path):
    for count in (2, 3):
        buffer = ReplayBuffer(3)
        for _ in range(count):
            buffer.add(Batch(obs=Batch(), act=1, rew=1.0, terminated=False, truncated=False))
        buffer.save_hdf5(tmp_path / "file")
        assert len(ReplayBuffer.load_hdf5(tmp_path / "file")) == count


def test_rows_that_are_not_stored_yet_take_no_room(tmp_path):
    buffer = ReplayBuffer(1_000_000)
    add(buffer, 1, cam=np.zeros((10, 10)))
    buffer.save_hdf5(tmp_path / "file")
    assert (tmp_path / "file").stat().st_size < 100_000


def test_a_buffer_on_disk_is_saved_and_comes_back_in_memory(tmp_path):
    buffer = PrioritizedReplayBuffer(3, 0.5, 0.5, path=tmp_path / "buffer")
    for number in range(5):
        buffer.add(as_batch(row(number)))
    buffer.update_weight(np.arange(3), np.array([1.0, 2.0, 3.0]))
    buffer.save_hdf5(tmp_path / "file")
    again = PrioritizedReplayBuffer.load_hdf5(tmp_path / "file")
    assert again[:] == buffer[:]
    pickle.loads(pickle.dumps(again)).add(as_batch(row(9)))
    assert PrioritizedReplayBuffer.open(tmp_path / "buffer", "r")[:] == buffer[:]


def test_a_file_that_is_there_stays_as_it_was_when_saving_fails(tmp_path):
    buffer = filled("ReplayBuffer", 3)
    buffer.save_hdf5(tmp_path / "file")
    before = (tmp_path / "file").read_bytes()
    buffer.set_array_at_key(np.array([print] * 5, object), "what")
    for path in ("file", "new"):
        with pytest.raises(errors.StorageError, match="what"):
            buffer.save_hdf5(tmp_path / path)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == before


def test_a_path_that_cannot_be_written_is_refused(tmp_path):
    buffer = filled("ReplayBuffer", 3)
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "missing" / "file", tmp_path / "folder"):
        with pytest.raises(errors.StorageError):
            buffer.save_hdf5(path)
    with pytest.raises(errors.StorageError):
        buffer.save_hdf5(tmp_path / "file", "zip")
    assert [one.name for one in tmp_path.rglob("*")] == ["folder"]


@pytest.mark.parametrize("name", BUFFERS)
def test_a_file_is_read_by_its_own_class_alone(name, tmp_path):
    filled(name, 3).save_hdf5(tmp_path / "file")
    for other in (ReplayBuffer, VectorReplayBuffer, PrioritizedReplayBuffer, PrioritizedVectorReplayBuffer):
        if other.__name__ != name:
            with pytest.raises(errors.StorageError, match=name):
                other.load_hdf5(tmp_path / "file")


def test_tensors_of_a_buffer_go_where_they_are_wanted(tmp_path):
    filled("ReplayBuffer", 5).save_hdf5(tmp_path / "file")
    assert ReplayBuffer.load_hdf5(tmp_path / "file", device="cpu").t.device.type == "cpu"
    assert ReplayBuffer.load_hdf5(tmp_path / "file", device="meta").t.device.type == "meta"


def test_what_tianshou_writes_is_read(tmp_path):
    fields = {
        "array": np.arange(3.0),
        "flags": np.array([True, False]),
        "tensor": torch.arange(3),
        "int": 3,
        "float": 0.5,
        "bool": True,
        "dict": {"inner": {"a": np.zeros((2, 0))}},
        "batch": tianshou.data.Batch(a=np.arange(2), b=tianshou.data.Batch(c=torch.ones(2, 2))),
    }
    with h5py.File(tmp_path / "file", "w") as file:
        tianshou_to_hdf5(fields, file)
        read = from_hdf5(file)
    assert read["array"].tolist() == [0, 1, 2]
    assert (read["flags"].dtype, read["flags"].tolist()) == (np.dtype(bool), [True, False])
    assert (read["tensor"].dtype, read["tensor"].tolist()) == (torch.int64, [0, 1, 2])
    assert (read["int"], read["float"], read["bool"]) == (3, 0.5, True)
    assert read["dict"]["inner"]["a"].shape == (2, 0)
    assert read["batch"] == Batch(a=np.arange(2), b=Batch(c=torch.ones(2, 2)))


@pytest.mark.parametrize("value", ["object", "array", "text", "none"])
def test_a_pickle_in_a_file_of_tianshou_is_refused_by_name_and_not_executed(value, tmp_path):
    evil = Evil(tmp_path / "executed")
    what = {"object": evil, "array": np.array([evil, None], object), "text": "text", "none": None}[value]
    with h5py.File(tmp_path / "file", "w") as file:
        tianshou_to_hdf5({"fine": 1, "batch": tianshou.data.Batch(a={"deep": np.zeros(1)}), "dict": {"it": what}}, file)
        with pytest.raises(errors.StorageError, match=r"'dict\.it'.*pickle"):
            from_hdf5(file)
        assert from_hdf5(file["batch"]).a.deep.tolist() == [0]
    assert not (tmp_path / "executed").exists()


THEIRS: dict[str, Any] = {
    "ReplayBuffer": lambda: tianshou.data.ReplayBuffer(4, stack_num=2),
    "VectorReplayBuffer": lambda: tianshou.data.VectorReplayBuffer(12, 3, ignore_obs_next=True),
    "PrioritizedReplayBuffer": lambda: tianshou.data.PrioritizedReplayBuffer(4, 0.6, 0.4),
    "PrioritizedVectorReplayBuffer": lambda: tianshou.data.PrioritizedVectorReplayBuffer(12, 3, alpha=0.6, beta=0.4),
}
OURS = {cls.__name__: cls for cls in (ReplayBuffer, VectorReplayBuffer, PrioritizedReplayBuffer)}
OURS["PrioritizedVectorReplayBuffer"] = PrioritizedVectorReplayBuffer


def saved_by_tianshou(name: str, count: int, path: Path) -> Any:
    buffer = THEIRS[name]()
    rings = 3 if "Vector" in name else 1
    for number in range(count):
        act = np.arange(rings) * 100 + number
        done = (act + np.arange(rings)) % 4 == 3
        fields = {"obs": act[:, None] * 1.0, "act": act, "rew": act / 2, "terminated": done, "truncated": done & False}
        rows = tianshou.data.Batch(fields, obs_next=act[:, None] + 0.5, info=tianshou.data.Batch(number=act))
        ids = np.arange(rings) if number % 3 else np.arange(max(rings - 1, 1))
        buffer.add(rows[ids] if rings > 1 else rows[0], **({"buffer_ids": ids} if rings > 1 else {}))
    buffer.save_hdf5(str(path))
    return buffer


@pytest.mark.parametrize("count", [0, 1, 3, 9])
@pytest.mark.parametrize("name", THEIRS)
def test_a_buffer_that_tianshou_has_saved_is_loaded_by_the_class_of_the_same_name(name, count, tmp_path):
    theirs = saved_by_tianshou(name, count, tmp_path / "file")
    buffer = OURS[name].load_hdf5(tmp_path / "file")
    assert (len(buffer), buffer.maxsize, buffer.stack_num) == (len(theirs), theirs.maxsize, theirs.stack_num)
    assert buffer.options["ignore_obs_next"] == ("ignore" in str(theirs.options) and not theirs._save_obs_next)
    if count:
        rows, slots = theirs.sample(0)
        own = buffer.sample(0)[0] if "Prio" in name else buffer[:]
        assert own.act.tolist() == theirs.act[slots].tolist()  # where all fields have frames
        assert own.obs.tolist() == rows.obs.tolist()
        assert own.done.tolist() == theirs.done[slots].tolist()
        assert own.info.number.tolist() == theirs.info.number[slots].tolist()
        assert buffer.get(buffer.sample_indices(0), "rew", stack_num=1).tolist() == theirs.rew[slots].tolist()
    rings = buffer.buffer_num
    act = np.arange(rings) * 100 + count
    fields = {"obs": act[:, None] * 1.0, "act": act, "rew": act / 2, "terminated": act == act, "truncated": act != act}
    new = Batch(fields, obs_next=act[:, None] + 0.5, info=Batch(number=act))
    added = buffer.add(new, buffer_ids=range(rings))
    flat = tianshou.data.Batch(fields, obs_next=act[:, None] + 0.5, info=tianshou.data.Batch(number=act))
    expected = theirs.add(flat, buffer_ids=range(rings)) if rings > 1 else theirs.add(flat[0])
    assert added.ep_len.tolist() == expected[2].tolist()
    if count < 9:  # theirs keeps the sum of an episode that it has overwritten the beginning of
        np.testing.assert_allclose(added.ep_return, expected[1])


def test_a_buffer_of_tianshou_is_not_loaded_by_another_class(tmp_path):
    saved_by_tianshou("VectorReplayBuffer", 3, tmp_path / "file")
    with pytest.raises(
        errors.StorageError, match=r"is a VectorReplayBuffer of Tianshou; read it with VectorReplayBuffer.load"
    ):
        ReplayBuffer.load_hdf5(tmp_path / "file")
    cached = tianshou.data.CachedReplayBuffer(tianshou.data.ReplayBuffer(5), 2, 3)
    cached.save_hdf5(str(tmp_path / "cached"))
    with pytest.raises(errors.StorageError, match=r"is a CachedReplayBuffer of Tianshou.*from_hdf5\(path\)"):
        CachedReplayBuffer.load_hdf5(tmp_path / "cached")


def test_a_pickle_in_a_buffer_of_tianshou_is_refused_by_name_and_not_executed(tmp_path):
    buffer = tianshou.data.ReplayBuffer(3)
    fields = {"obs": 1, "act": 1, "rew": 1.0, "terminated": False, "truncated": False, "obs_next": 1}
    buffer.add(tianshou.data.Batch(fields, info={"evil": Evil(tmp_path / "executed")}))
    buffer.save_hdf5(str(tmp_path / "file"))
    with pytest.raises(errors.StorageError, match=r"_meta\.info\.evil.*pickle"):
        ReplayBuffer.load_hdf5(tmp_path / "file")
    assert not (tmp_path / "executed").exists()


def test_a_pickle_called_anything_is_not_executed(tmp_path):
    evil = np.frombuffer(pickle.dumps(Evil(tmp_path / "executed")), np.byte)
    for kind in ("Tensor", "ndarray", "scalar", "json", "json_ndarray", "pickled_ndarray", "Evil", "Batch", 3, [1, 2]):
        with h5py.File(tmp_path / "file", "w") as file:
            file.create_dataset("it", data=evil).attrs["__data_type__"] = kind
            file["it"].attrs["dtype"] = "torch.load"
            if kind in ("ndarray", "scalar"):
                from_hdf5(file)
            else:
                with pytest.raises(errors.StorageError, match="'it'"):
                    from_hdf5(file)
    assert not (tmp_path / "executed").exists()


def linked(file: h5py.File, how: str, folder: Path) -> None:
    """Something under the name "it" that leads elsewhere."""
    if how == "external link":
        file["it"] = h5py.ExternalLink(str(folder / "secret"), "/a")
    elif how == "external link to a group":
        file["it"] = h5py.ExternalLink(str(folder / "secret"), "/")
    elif how == "soft link":
        file["it"] = h5py.SoftLink("/other")
    elif how == "dangling link":
        file["it"] = h5py.SoftLink("/nowhere")
    elif how == "cycle":
        group = file.create_group("it")
        group["again"] = group
    elif how == "long cycle":
        group = file.create_group("it/deep/deeper")
        group["again"] = file["it"]
    elif how == "cycle of the root":
        file.create_group("it")["again"] = file["/"]
    elif how == "virtual":
        layout = h5py.VirtualLayout((2,), float)
        layout[:] = h5py.VirtualSource(str(folder / "secret"), "a", (2,))
        file.create_virtual_dataset("it", layout)
    elif how == "external":
        file.create_dataset("it", (2,), float, external=[(str(folder / "raw"), 0, 16)])
    elif how == "type":
        file["it"] = np.dtype("f8")


LINKS = ["external link", "external link to a group", "soft link", "dangling link", "cycle", "long cycle"]
LINKS += ["cycle of the root", "virtual", "external", "type"]


@pytest.mark.parametrize("how", LINKS)
def test_what_leads_elsewhere_is_refused_by_name(how, tmp_path):
    with h5py.File(tmp_path / "secret", "w") as file:
        to_hdf5({"a": np.ones(2)}, file)
    (tmp_path / "raw").write_bytes(np.ones(2).tobytes())
    with h5py.File(tmp_path / "file", "w") as file:
        to_hdf5({"other": np.ones(2)}, file)
        linked(file, how, tmp_path)
        with pytest.raises(errors.StorageError, match="'it"):
            from_hdf5(file)


@pytest.mark.parametrize("name", ["rows", "numbers", "extras"])
@pytest.mark.parametrize("how", ["external", "soft"])
def test_a_part_of_a_buffer_that_is_elsewhere_is_refused(name, how, tmp_path):
    filled("PrioritizedReplayBuffer", 3).save_hdf5(tmp_path / "secret")
    filled("PrioritizedReplayBuffer", 3).save_hdf5(tmp_path / "file")
    with h5py.File(tmp_path / "file", "a") as file:
        file["moved"] = file[name]
        del file[name]
        file[name] = h5py.ExternalLink(str(tmp_path / "secret"), name) if how == "external" else h5py.SoftLink("/moved")
    with pytest.raises(errors.StorageError):
        PrioritizedReplayBuffer.load_hdf5(tmp_path / "file")


ATTRIBUTES: dict[str, dict[str, Any]] = {
    "kind of numbers": {"__data_type__": [1, 2]},
    "json of an array": {"__data_type__": "json"},
    "objects of an array": {"__data_type__": "json_ndarray", "shape": (3,)},
    "time that is not a time": {"time": "nonsense"},
    "time as objects": {"time": "O"},
    "time of another size": {"time": "S7"},
    "time as numbers": {"time": 5},
    "tensor of a wider dtype": {"__data_type__": "Tensor", "dtype": "torch.complex128"},
    "tensor of a number": {"__data_type__": "Tensor", "dtype": 5},
    "gradient of an integer": {"__data_type__": "Tensor", "requires_grad": True},
}


@pytest.mark.parametrize("what", ATTRIBUTES)
def test_attributes_that_do_not_fit_are_refused_by_name(what, tmp_path):
    with h5py.File(tmp_path / "file", "w") as file:
        to_hdf5({"it": np.arange(3)}, file)
        for name, value in ATTRIBUTES[what].items():
            file["it"].attrs[name] = value
        with pytest.raises(errors.StorageError, match="'it'"):
            from_hdf5(file)


@pytest.mark.parametrize("shape", [None, (3,), "text", (1.5,), (-1, -1), 2], ids=str)
def test_objects_of_another_shape_are_refused_by_name(shape, tmp_path):
    with h5py.File(tmp_path / "file", "w") as file:
        to_hdf5({"it": np.array(["a", "b"], object)}, file)
        del file["it"].attrs["shape"]
        if shape is not None:
            file["it"].attrs["shape"] = shape
        with pytest.raises(errors.StorageError, match="'it'"):
            from_hdf5(file)


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "5", "null", '{"a": 1}'], ids=lambda text: text[:9])
@pytest.mark.parametrize("kind", ["json", "json_ndarray"])
def test_broken_json_is_refused_by_name(text, kind, tmp_path):
    with h5py.File(tmp_path / "file", "w") as file:
        file.create_dataset("it", data=text).attrs["__data_type__"] = kind
        file["it"].attrs["shape"] = (1,)
        if kind == "json" and text in ("5", "null", '{"a": 1}'):
            assert from_hdf5(file)["it"] == json.loads(text)
            return
        with pytest.raises(errors.StorageError, match="'it'"):
            from_hdf5(file)


def test_text_bytes_and_other_datasets_of_others_are_refused_or_read_as_they_are(tmp_path):
    with h5py.File(tmp_path / "file", "w") as file:
        file["vlen"] = np.array(["a", "bc"], h5py.string_dtype())
        file.create_dataset("ragged", (2,), h5py.vlen_dtype(int))
        file.create_dataset("references", data=np.array([file.ref], h5py.ref_dtype), dtype=h5py.ref_dtype)
        assert from_hdf5(file["vlen"]).tolist() == ["a", "bc"]
        for name in ("ragged", "references"):
            with pytest.raises(errors.StorageError):
                from_hdf5(file[name])
        file["huge"] = 0
        file.create_dataset("endless", (10**15,), "f8", chunks=(1000,))
        with pytest.raises(errors.StorageError):
            from_hdf5(file["endless"])


def test_what_a_buffer_needs_and_a_file_lacks_is_refused(tmp_path):
    path = tmp_path / "file"

    def attribute(name: str, change: Any) -> Any:
        def apply(file: h5py.File) -> None:
            content = json.loads(file.attrs[name])
            change(content)
            file.attrs[name] = json.dumps(content)

        return apply

    def argument(name: str, value: Any) -> Any:
        return attribute("buffer", lambda content: content["arguments"].update({name: value}))

    changes = {
        **{f"no {name}": lambda file, name=name: file.__delitem__(name) for name in ("rows", "numbers", "extras")},
        **{
            f"no {name}": lambda file, name=name: file.attrs.__delitem__(name)
            for name in ("buffer", "random", "format")
        },
        **{
            f"no column {name}": lambda file, name=name: file["rows"].__delitem__(name)
            for name in ("obs", "act", "rew", "terminated", "truncated", "done")
        },
        "a column for rows": lambda file: (file.__delitem__("rows"), file.create_dataset("rows", data=[1])),
        "a dict for rows": lambda file: file["rows"].attrs.__delitem__("__data_type__"),
        "short positions": lambda file: (file.__delitem__("numbers"), file.create_dataset("numbers", data=[1.0])),
        "positions that are text": lambda file: (file.__delitem__("numbers"), file.create_dataset("numbers", data="a")),
        "positions outside": lambda file: file["numbers"].__setitem__(0, 77),
        "positions below": lambda file: file["numbers"].__setitem__(0, -1),
        "positions that are none": lambda file: file["numbers"].__setitem__(0, np.nan),
        "positions that are endless": lambda file: file["numbers"].__setitem__(1, np.inf),
        "other positions": lambda file: file["numbers"].__setitem__(1, 2),
        "no priorities": lambda file: file["extras"].__delitem__("priorities"),
        "priorities below": lambda file: file["extras/priorities"].__setitem__(0, -3),
        "priorities that are none": lambda file: file["extras/priorities"].__setitem__(0, np.nan),
        "one column shorter": lambda file: (
            file["rows"].__delitem__("act"),
            file["rows"].create_dataset("act", data=[1, 2]),
        ),
        "one column without rows": lambda file: (
            file["rows"].__delitem__("act"),
            file["rows"].create_dataset("act", data=1),
        ),
        "text for random": lambda file: file.attrs.__setitem__("random", "nonsense"),
        "a list for random": lambda file: file.attrs.__setitem__("random", "[]"),
        "another generator": attribute("random", lambda content: content.update(bit_generator="MT19937")),
        "a huge state": attribute("random", lambda content: content["state"].update(state=10**60)),
        "nested": lambda file: (file.attrs.__delitem__("random"), file.attrs.__setitem__("random", "[" * 50_000)),
        "a path": argument("path", str(tmp_path / "made")),
        "size of text": argument("size", "x"),
        "size of none": argument("size", None),
        "smaller size": argument("size", 2),
        "huge size": argument("size", 10**15),
        "endless size": argument("size", 10**30),
        "infinite size": argument("size", float("inf")),
        "another argument": argument("other", 1),
        "another class": attribute("buffer", lambda content: content.update({"class": "ReplayBuffer"})),
        "a number for a class": attribute("buffer", lambda content: content.update({"class": 1})),
        "no description": lambda file: file.attrs.__setitem__("buffer", "null"),
    }
    wrong = {}
    for what, change in changes.items():
        filled("PrioritizedReplayBuffer", 3).save_hdf5(path)
        with h5py.File(path, "a") as file:
            change(file)
        try:
            PrioritizedReplayBuffer.load_hdf5(path)
        except errors.StorageError:
            continue
        except Exception as error:  # noqa: BLE001
            wrong[what] = type(error).__name__
        else:
            wrong[what] = "nothing"
    assert wrong == {}
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "text").write_text("text")
    (tmp_path / "empty").write_bytes(b"")
    with h5py.File(tmp_path / "other", "w") as file:
        to_hdf5({"rows": Batch(a=np.zeros(3))}, file)
    for path in ("text", "empty", "other", "missing", "."):
        with pytest.raises(errors.StorageError):
            ReplayBuffer.load_hdf5(tmp_path / path)
    assert not (tmp_path / "missing").exists()


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_bytes_that_were_changed_give_a_buffer_or_are_refused(compression, tmp_path, monkeypatch):
    """In this process: whatever goes wrong in the HDF5 library, it neither ends it nor keeps it waiting."""
    monkeypatch.setattr(_hdf5, "SECONDS", 1.0)
    buffer = PrioritizedVectorReplayBuffer(10, 2, 0.5, 0.5)
    for number in range(4):
        buffer.add(as_rows([row(number, extra=1), row(number, True, extra=1)]))
    buffer.save_hdf5(tmp_path / "file", compression)
    whole = (tmp_path / "file").read_bytes()
    used = [place for place in range(len(whole)) if whole[place]]
    assert usable(tmp_path / "file")
    outcomes = []
    for seed in range(10_000 if settings.get_current_profile_name() == "fuzz" else 300):
        choice, content = random.Random(seed), bytearray(whole)
        for _ in range(choice.randint(1, 4)):
            content[choice.choice(used)] ^= 1 << choice.randrange(8)
        (tmp_path / "changed").write_bytes(bytes(content))
        outcomes.append(usable(tmp_path / "changed"))
    assert outcomes.count(False) > 100


def usable(path: Path) -> bool:
    """Whether a buffer is read; then everything works as it should."""
    try:
        buffer = PrioritizedVectorReplayBuffer.load_hdf5(path)
    except errors.StorageError:
        return False
    slots = buffer.sample_indices(0)
    assert len(buffer[:].act) == len(buffer) == len(slots)
    if len(slots):
        assert set(buffer.sample(20)[1].tolist()) <= set(slots.tolist())
        buffer.prev(slots)
        buffer.add(buffer[slots[:1]], buffer_ids=[0])
    buffer.unfinished_index()
    return True


class TestFiles:
    def test_groups_that_are_in_two_places_are_refused_however_often(self, tmp_path: Path):
        with h5py.File(tmp_path / "x.h5", "w") as file:
            group = file.create_group("start")
            for _ in range(60):
                inner = group.create_group("a")
                group["b"] = inner
                group = inner
            with pytest.raises(StorageError, match="two places"):
                from_hdf5(file)

    def test_a_pipe_in_place_of_a_file_is_refused(self, tmp_path: Path):
        held(ReplayBuffer(4, path=tmp_path / "buffer"), step(0))
        (tmp_path / "buffer" / "buffer.json").unlink()
        os.mkfifo(tmp_path / "buffer" / "buffer.json")
        with pytest.raises(StorageError, match=r"buffer\.json is not a regular file"):
            ReplayBuffer.open(tmp_path / "buffer")

    def test_a_ring_has_no_fields_of_its_own(self):
        buffer = held(VectorReplayBuffer(8, 2), steps(0, 1))
        for change in (
            lambda part: part.add(step(2, extra=1)),
            lambda part: part.set_array_at_key(np.zeros(4), "extra"),
            lambda part: part.set_batch(buffer[:]),
            lambda part: part.dropnull(),
        ):
            with pytest.raises(StructureError, match="not possible in a ring of a VectorReplayBuffer"):
                change(buffer.buffers[0])
