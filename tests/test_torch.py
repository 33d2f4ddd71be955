"""Batches with torch leaves: devices, gradients, pytrees, compilation. The GPU cases run where there is one."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from multiprocessing.reduction import ForkingPickler
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, Normal
from torch.utils import _pytree

from typedbatch import Batch, BatchRecord, RolloutBatch, conforms, convert
from typedbatch._ops.conversion import to_numpy, to_torch, to_torch_as
from typedbatch.errors import DeclarationError, LeafError, RowIndexError

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))]
on_each_device = pytest.mark.parametrize("device", DEVICES)


def mixed(device: str) -> Batch:
    return Batch(
        obs=Batch(cam=torch.arange(24.0, device=device).reshape(6, 4), pos=torch.arange(6, device=device)),
        dist=Categorical(torch.ones(6, 3, device=device)),
        info=np.array([None, 1, "a", None, 2, "b"]),
        rew=np.arange(6.0),
        reserved=Batch(),
    )


@on_each_device
def test_to_torch_honours_device_and_dtype_in_nested_batches_and_distributions(device: str):
    batch = Batch(
        a=np.zeros(3), n=Batch(b=np.zeros(3, bool), c=torch.zeros(3)), d=Normal(torch.zeros(3), torch.ones(3))
    )
    there = batch.to_torch(dtype=torch.float16, device=device)
    assert {str(t.device.type) for t in (there["a"], there["n"]["b"], there["n"]["c"], there["d"].loc)} == {device}
    assert (there["a"].dtype, there["n"]["b"].dtype, there["n"]["c"].dtype) == (
        torch.float16,
        torch.bool,
        torch.float16,
    )
    assert there.to_numpy()["a"].dtype == np.float16


@on_each_device
@pytest.mark.parametrize("where", DEVICES)
def test_any_index_selects_the_same_rows_of_arrays_tensors_and_distributions(device: str, where: str):
    batch = mixed(device)
    for rows in ([4, 0, 5], [True, False, True, False, False, True]):
        expected = np.array(rows)
        for index in (rows, np.array(rows), torch.tensor(rows, device=where)):
            taken = batch[index]
            assert taken["rew"].tolist() == np.arange(6.0)[expected].tolist()
            assert taken["obs"]["pos"].tolist() == np.arange(6)[expected].tolist()
            assert taken["dist"].batch_shape == (3,)
            assert taken["obs"]["cam"].device.type == device


@on_each_device
def test_minibatches_and_joins_keep_rows_together_and_stay_on_the_device(device: str):
    batch = mixed(device)
    pieces = list(batch.split(4, rng=0))
    again = Batch.cat(pieces)
    assert again["obs"]["pos"].cpu().tolist() == again["rew"].tolist()
    assert again["obs"]["cam"].device.type == device
    assert Batch.stack([batch, batch])[1]["obs"] == batch["obs"]


@on_each_device
def test_rows_are_assigned_across_devices(device: str):
    batch = Batch(a=torch.zeros(4, 2, device=device), n=Batch(b=torch.zeros(4, dtype=torch.int64, device=device)))
    batch[torch.tensor([0, 2], device=device)] = {"a": np.ones((2, 2)), "n": {"b": [7, 8]}}
    batch[::-2] = Batch(a=torch.full((2, 2), 3.0), n=Batch(b=torch.tensor([1, 2])))
    assert batch["n"]["b"].tolist() == [7, 2, 8, 1]
    assert batch["a"][:, 0].tolist() == [1, 3, 1, 3]


@on_each_device
def test_copies_pickles_and_equality(device: str):
    batch = mixed(device)
    for other in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch)), batch.to_torch(device="cpu")):
        assert other == batch
    assert Batch(a=torch.ones(2, device=device)) == Batch(a=np.ones(2, np.float32))


@on_each_device
def test_arithmetic_and_numpy_reductions_stay_on_the_device_and_in_the_graph(device: str):
    weights = torch.ones(3, 2, device=device, requires_grad=True)
    batch = Batch(a=weights * 2, b=torch.arange(6, device=device).reshape(3, 2))
    total = np.mean(batch * 2 + 1)
    assert total["a"].device.type == device
    total["a"].backward()
    assert torch.allclose(weights.grad, torch.full((3, 2), 4 / 6, device=device))
    assert total["b"].item() == pytest.approx(6.0)
    assert np.max(batch, axis=0)["b"].tolist() == [4, 5]
    assert torch.allclose(np.exp(batch)["a"], weights.exp() ** 2)


@on_each_device
def test_convert_leaves_objects_behind_and_moves_the_rest(device: str):
    zeros = np.zeros((5, 2))
    rollout = RolloutBatch(
        obs=zeros, obs_next=zeros, act=zeros, rew=zeros[:, 0], terminated=zeros[:, 0] > 1, truncated=zeros[:, 0] > 1,
        info=np.array([None] * 5),
    )  # fmt: skip
    there = convert(rollout, RolloutBatch[Tensor], device=device)
    assert there.obs.device.type == device
    assert isinstance(there.info, np.ndarray)
    assert conforms(there, RolloutBatch[Tensor])
    assert convert(there, RolloutBatch) == rollout


def test_single_values_convert_as_fields_do():
    assert torch.equal(to_torch([1.0, 2.0]), torch.tensor([1.0, 2.0], dtype=torch.float64))
    assert to_torch(3, dtype=torch.float32).dtype == torch.float32
    assert to_torch({"a": [1]})["a"].tolist() == [1]
    assert to_torch("text") == "text"
    assert to_torch(None) is None
    assert to_numpy(torch.ones(2, requires_grad=True)).tolist() == [1, 1]
    assert to_numpy([torch.ones(2), torch.zeros(2)]).shape == (2, 2)
    assert to_torch_as(np.ones(2), torch.ones(1, dtype=torch.float16)).dtype == torch.float16


def test_memory_is_shared_unless_torch_cannot_use_it():
    frozen = np.ones(3)
    frozen.flags.writeable = False
    batch = Batch(
        plain=np.ones(3), backward=np.arange(3)[::-1], frozen=frozen, swapped=np.ones(3, ">f4"), view=np.ones(6)[::2]
    )
    there = batch.to_torch()
    shared = {name for name, tensor in there.items() if np.shares_memory(tensor.numpy(), batch[name])}
    assert shared == {"plain", "view"}
    assert there == Batch(batch, swapped=np.ones(3, np.float32))


def test_bfloat16_widens_on_the_way_to_numpy_and_survives_a_pickle():
    batch = Batch(a=torch.tensor([1.5, -2.0], dtype=torch.bfloat16), g=torch.ones(2, requires_grad=True))
    assert batch.to_numpy()["a"].dtype == np.float32
    back = pickle.loads(pickle.dumps(batch))
    assert back["a"].dtype == torch.bfloat16
    assert back["g"].requires_grad
    assert back == batch


def test_a_tensor_in_a_pickle_costs_what_an_array_costs():
    array = np.zeros((64, 4), np.float32)
    as_array, as_tensor = pickle.dumps(Batch(a=array)), pickle.dumps(Batch(a=torch.from_numpy(array)))
    assert len(as_tensor) < len(as_array) + 200


@pytest.mark.parametrize("special", ["sparse", "parameter", "graph", "conj"])
def test_unusual_tensors_survive_pickle_or_are_copied_in_their_graph(special: str):
    tensor = {
        "sparse": torch.eye(3).to_sparse(),
        "parameter": torch.nn.Parameter(torch.ones(3)),
        "graph": torch.ones(3, requires_grad=True) * 2,
        "conj": torch.ones(3, dtype=torch.complex64).conj(),
    }[special]
    batch = Batch(a=tensor)
    if special != "graph":
        back = pickle.loads(pickle.dumps(batch))["a"]
        assert type(back) is type(tensor)
        assert torch.equal(back.to_dense(), tensor.to_dense())
    assert copy.deepcopy(batch)["a"].grad_fn is None or special == "graph"


class HiddenState(NamedTuple):
    h: Tensor
    c: Tensor


@pytest.mark.parametrize(
    "several", [tuple, list, lambda parts: HiddenState(*parts)], ids=["tuple", "list", "named tuple"]
)
def test_tensors_that_do_not_stack_are_stored_by_name(several):
    parts = torch.zeros(3, 4), torch.zeros(3, 2)
    with pytest.raises(LeafError, match=r"field 'state': .* do not stack; to store each by itself, name them, as in"):
        Batch(state=several(parts))

    class Recurrent(BatchRecord):
        state: dict[str, Tensor]

    batch = Recurrent(state={"h": parts[0], "c": parts[1]})
    assert batch[1:].state.c.shape == (2, 2)
    for hint in (tuple[Tensor, Tensor], list[Tensor], HiddenState):
        with pytest.raises(DeclarationError, match=r"dict\[str, Tensor\] for tensors with names"):
            type("Refused", (BatchRecord,), {"__annotations__": {"state": hint}, "__module__": __name__})


def test_an_index_that_one_distribution_cannot_take_names_it():
    with pytest.raises(RowIndexError, match="'dist'"):
        Batch(dist=Independent(Normal(torch.zeros(2), torch.ones(2)), 1))[0]


def test_torch_maps_over_batches_and_records_with_paths():
    batch = Batch(a=torch.ones(2), n=Batch(b=torch.zeros(2)), note="x", nothing=None)
    paths = [_pytree.keystr(path) for path, _ in _pytree.tree_flatten_with_path(batch)[0]]
    assert paths == [".a", ".n.b", ".note", ".nothing"]
    doubled = _pytree.tree_map(lambda leaf: leaf + 1 if isinstance(leaf, Tensor) else leaf, batch)
    assert doubled == Batch(a=torch.full((2,), 2.0), n=Batch(b=torch.ones(2)), note="x", nothing=None)


def test_a_record_that_is_declared_later_is_a_node_too():
    class Later(RolloutBatch):
        goal: Tensor

    later = object.__new__(Later)
    later.__dict__["goal"] = torch.ones(2)
    assert type(_pytree.tree_map(lambda leaf: leaf, later)) is Later


def test_vmap_and_grad_see_into_batches():
    batch = Batch(obs=torch.arange(6.0).reshape(3, 2), act=torch.ones(3))
    assert torch.vmap(lambda row: row.obs.sum() * row.act)(batch).tolist() == [1, 5, 9]
    assert torch.func.grad(lambda b: (b.obs**2).sum())(batch)["obs"].tolist() == (2 * batch["obs"]).tolist()


@pytest.mark.skipif(torch.__version__ < (2, 7), reason="torch compiles writes to a __dict__ from 2.7 on")
@pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")  # torch's, there alone
def test_compiled_functions_read_and_make_batches():
    @torch.compile(backend="eager", fullgraph=True)
    def step(batch: Batch) -> Batch:
        return Batch(loss=(batch.obs * batch["act"][:, None]).sum(-1))

    batch = Batch(obs=torch.ones(3, 2), act=torch.arange(3.0))
    assert step(batch)["loss"].tolist() == [0, 2, 4]


def test_optree_sees_into_batches():
    code = (
        "import optree, numpy as np; from typedbatch import Batch\n"
        "b = Batch(a=np.ones(2), n=Batch(b=np.zeros(2)))\n"
        "print(optree.tree_map(lambda x: x + 1, b).n.b.tolist(), optree.tree_paths(b))\n"
        "import sys; assert 'torch' not in sys.modules"
    )
    out = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert out.strip() == "[1.0, 1.0] [('a',), ('n', 'b')]"


def test_a_blocked_optree_does_not_break_the_import():
    code = "import sys; sys.modules['optree'] = None; from typedbatch import Batch; print(Batch(a=1).a)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "1\n"


def test_saved_by_torch_a_batch_keeps_storages_and_is_mapped_to_devices():
    whole = torch.arange(6.0)
    file = io.BytesIO()
    torch.save(Batch(a=whole[:5], n={"b": whole[1:]}), file)
    file.seek(0)
    back = torch.load(file, weights_only=False)
    back["a"][1] = 100
    assert back["n"].b[0] == 100
    file.seek(0)
    assert torch.load(file, weights_only=False, map_location="meta")["n"].b.device.type == "meta"


def _fill(inbox, outbox):
    inbox.get()["a"].fill_(7)
    outbox.put(True)


def test_shared_memory_stays_shared_with_another_process():
    context = torch.multiprocessing.get_context("spawn")
    inbox, outbox = context.Queue(), context.Queue()
    tensor = torch.zeros(3).share_memory_()
    process = context.Process(target=_fill, args=(inbox, outbox))
    process.start()
    try:
        inbox.put(Batch(a=tensor))
        assert outbox.get()
        process.join()
    finally:
        process.kill()
    assert tensor.tolist() == [7, 7, 7]


LARGE = 1 << 18
"""Number of float32 that are passed in shared memory."""


def test_what_goes_through_a_queue_is_a_copy_of_its_time():
    """A worker may fill the same tensor again, and may end, before the other process has looked."""
    context = torch.multiprocessing.get_context("spawn")
    outbox = context.Queue()
    process = context.Process(target=_reuse, args=(outbox,))
    process.start()
    try:
        found = [float(outbox.get()["a"].max()) for _ in range(3)]
    finally:
        process.join()
    assert found == [0, 1, 2]


def _reuse(outbox):
    batch = Batch(a=torch.zeros(LARGE))
    for number in range(3):
        batch.a[:] = number
        outbox.put(copy.deepcopy(batch))  # the thread of a queue pickles a batch some time later


class Reusing:
    """A data set that fills the same tensors again for each item."""

    def __init__(self) -> None:
        self.batch = Batch(large=torch.ones(LARGE), small=torch.ones(2), view=torch.ones(4 * LARGE)[::4])
        self.batch.half = torch.ones(2 * LARGE).half()
        self.batch.trained = torch.ones(LARGE, requires_grad=True)

    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> Batch:
        for value in self.batch.values():
            value.detach().fill_(number)
        return self.batch


def test_a_worker_of_a_data_loader_passes_large_tensors_in_shared_memory():
    loader = torch.utils.data.DataLoader(Reusing(), batch_size=None, num_workers=1, collate_fn=copy.deepcopy)
    for number, batch in enumerate(loader):
        assert [name for name, value in batch.items() if not value.is_shared()] == ["small"]
        assert all((value == number).all() for value in batch.values())
        assert batch.trained.requires_grad


def test_tensors_of_a_worker_are_not_moved_to_shared_memory(monkeypatch):
    monkeypatch.setattr("torch.utils.data.get_worker_info", lambda: 1)
    array = np.ones(LARGE, np.float32)
    batch = Batch(a=torch.from_numpy(array), b=torch.ones(2 * LARGE)[::2])
    sent = pickle.loads(ForkingPickler.dumps(batch))
    assert sent.a.is_shared()
    assert torch.equal(sent.b, batch.b)
    array[0] = 2
    assert batch.a[0] == 2
    assert sent.a[0] == 1
    assert not batch.b.is_shared()


def test_in_a_pickle_of_its_own_a_large_tensor_is_a_copy():
    batch = Batch(a=torch.ones(LARGE))
    back = pickle.loads(pickle.dumps(batch))
    assert not back.a.is_shared()
    assert not batch.a.is_shared()


RAGGED = torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged)


@pytest.mark.parametrize("tensor", [torch.eye(2).to_sparse(), RAGGED], ids=["sparse", "nested"])
def test_tensors_without_plain_memory_are_shown(tensor):
    batch = Batch(a=tensor)
    assert "a" in batch._repr_html_()
    assert "a" in repr(batch)
