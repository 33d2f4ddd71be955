"""Batches between two processes of ``torch.distributed``, over gloo."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributions import Normal

from typedbatch import Batch, BatchRecord, Ragged, objects
from typedbatch.bridges.torch_distributed import all_gather, broadcast
from typedbatch.errors import LeafError, SettingError, StructureError


class Scored(BatchRecord):
    ids: torch.Tensor
    uid: np.ndarray[Any, Any]


def everything(rows: int, first: int = 0) -> Batch:
    numbers = torch.arange(first, first + rows)
    return Batch(
        ids=numbers,
        wide=numbers[:, None].expand(rows, 3).to(torch.float32).requires_grad_(),
        half=numbers.to(torch.bfloat16),
        mask=numbers % 2 == 0,
        turned=torch.stack([numbers, -numbers]).T,
        array=np.arange(first, first + rows),
        backwards=np.arange(first, first + rows)[::-1],
        complex=np.arange(rows) * 1j,
        long=np.arange(rows).astype(np.longdouble),
        at=np.arange(rows).astype("M8[s]"),
        uid=np.array([f"row {i}" for i in range(first, first + rows)], object),
        n={"none": None, "x": numbers * 2.0, "reserved": Batch()},
        dist=Normal(numbers * 1.0, torch.ones(rows)),
    )


def check_broadcast(rank: int) -> None:
    batch = everything(3)
    found = broadcast(batch if rank == 1 else None, src=1)
    assert found == everything(3)
    assert (found is batch) == (rank == 1)
    assert rank == 1 or not found.wide.requires_grad
    assert type(found.array) is np.ndarray
    assert found.half.dtype == torch.bfloat16
    record = Scored(ids=torch.arange(2), uid=np.array(["a", {"b": 1}], object))
    assert type(broadcast(record if rank == 0 else None)) is Scored
    assert broadcast(Batch() if rank == 0 else None) == Batch()
    assert broadcast(Batch(a=torch.zeros(0, 2)) if rank == 0 else None).a.shape == (0, 2)
    assert broadcast(Batch(step=5) if rank == 0 else None).step == 5


def check_all_gather(rank: int) -> None:
    found = all_gather(everything(1 + rank * 2, first=rank))
    expected = Batch.cat([everything(1), everything(3, first=1)])
    assert found == expected
    part = Scored(ids=torch.arange(rank), uid=np.array(["a"] * rank, object))
    assert type(all_gather(part)) is Scored
    assert all_gather(part).ids.tolist() == [0]
    assert len(all_gather(Batch(a=torch.zeros(0)))) == 0
    with pytest.raises(StructureError, match="'a'"):
        all_gather(Batch(a=torch.zeros(1)) if rank else Batch(b=torch.zeros(1)))
    with pytest.raises(StructureError, match="'a'"):
        all_gather(Batch(a=torch.zeros(1) if rank else np.zeros(1)))


def sequences(rank: int) -> Batch:
    """One sequence in the first process, and three in the second, one of them empty."""
    lengths = [[2], [1, 0, 3]][rank]
    ids = 10 * rank + torch.arange(sum(lengths))
    tokens = Ragged({"ids": ids, "inner": {"logp": -ids[:, None].to(torch.bfloat16), "none": None}}, lengths)
    images = Ragged({"pixels": np.ones((sum(lengths), 2), np.float32), "file": objects(["a"] * sum(lengths))}, lengths)
    batch = Batch(tokens=tokens, n={"images": images}, reward=torch.ones(len(lengths)))
    batch.meta["step"] = 5 + rank
    return batch


def check_sequences(rank: int) -> None:
    for sender in (0, 1):
        found = broadcast(sequences(rank) if rank == sender else None, src=sender)
        assert found == sequences(sender)
        assert found.meta == {"step": 5 + sender}
        assert [type(found.tokens), type(found.n.images)] == [Ragged, Ragged]
        assert type(found.n.images.values.pixels) is np.ndarray
        assert not found.tokens.sizes.flags.writeable
    assert broadcast(sequences(1)[2] if rank == 1 else None, src=1) == sequences(1)[2]  # a row, of one sequence
    together = all_gather(sequences(rank), meta={"step": max})
    assert together == Batch.cat([sequences(0), sequences(1)], meta={"step": max})
    assert together.meta == {"step": 6}
    assert all_gather(sequences(rank), meta="first").meta == {"step": 5}
    with pytest.raises(StructureError, match=r"meta.step.*meta='first' takes the first"):
        all_gather(sequences(rank))
    with pytest.raises(StructureError, match="tokens"):
        all_gather(Batch(tokens=Ragged({f"ids{rank}": torch.ones(1)}, [1])))


def check_widths(rank: int) -> None:
    own = Batch(response_ids=torch.full((1 + rank, 2 + rank), 5), scores=np.ones((1 + rank, 2 + rank)))
    with pytest.raises(StructureError, match="it is 2 wide in batch 0 and 3 wide in batch 1; widths='pad' pads it"):
        all_gather(own)
    with pytest.raises(SettingError, match="pass pad_token_id="):
        all_gather(own, widths="pad")
    together = all_gather(own, widths="pad", pad_token_id=9)
    assert together.response_ids.tolist() == [[5, 5, 9], [5, 5, 5], [5, 5, 5]]
    assert together.scores.tolist() == [[1, 1, 0], [1, 1, 1], [1, 1, 1]]


def in_a_group(rank: int, check: Callable[[int], None], store: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    try:
        check(rank)
        dist.barrier()
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("check", [check_broadcast, check_all_gather, check_sequences, check_widths])
def test_in_two_processes(check: Callable[[int], None], tmp_path: Path):
    mp.spawn(in_a_group, args=(check, str(tmp_path / "store")), nprocs=2)


def test_alone_a_process_has_what_it_gave(tmp_path: Path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        assert all_gather(everything(3)) == everything(3)
        with pytest.raises(LeafError, match="takes a Batch, got dict"):
            all_gather({"a": [1]})  # type: ignore[type-var]  # what is wrong here
        with pytest.raises(LeafError, match="takes a Batch, got None"):
            broadcast(None)
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("call", [broadcast, all_gather])
def test_without_a_group_it_says_what_to_call(call):
    with pytest.raises(SettingError, match=r"not initialized; call torch.distributed.init_process_group\(\) first"):
        call(Batch(a=torch.zeros(1)))
