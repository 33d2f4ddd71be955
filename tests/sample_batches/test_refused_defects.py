"""Defects of RLlib's SampleBatch and MultiAgentBatch (ray 2.60), each with a test that ours does not have it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from typedbatch import MultiAgentBatch, SampleBatch
from typedbatch.errors import StructureError


def infos(count: int) -> np.ndarray:
    return np.array([f"info {i}" for i in range(count)], object)


def test_a_replaced_column_counts():
    batch = SampleBatch(a=[1, 2, 3])
    batch["a"] = [1, 2, 3, 4, 5]
    assert len(batch) == batch.count == 5


def test_infos_and_states_count_as_columns_do():
    with pytest.raises(StructureError, match="different lengths"):
        len(SampleBatch(a=[1, 2, 3], infos=infos(2)))
    with pytest.raises(StructureError, match="different lengths"):
        len(SampleBatch(a=[1, 2, 3], state_in_0=[1.0, 2.0]))


@pytest.mark.parametrize(("one", "two"), [("a", "ab"), ("ab", "a")])
def test_concat_drops_no_extra_column(one, two):
    left, right = (SampleBatch({name: np.arange(2) for name in names}) for names in (one, two))
    with pytest.raises(StructureError, match="'b' is missing"):
        left.concat(right)


def test_a_deep_copy_copies_objects():
    batch = SampleBatch(a=np.array([["x"], ["y"]], object).reshape(2))
    batch.a[0] = ["x"]
    copied = batch.copy()
    copied.a[0].append("z")
    assert batch.a[0] == ["x"]


def test_rows_of_infos_that_are_a_list_of_dicts():
    batch = SampleBatch(a=[1, 2], infos=[{"x": 5}, {"x": 6}])
    assert list(batch.rows()) == [{"a": 1, "infos": {"x": 5}}, {"a": 2, "infos": {"x": 6}}]


def test_rows_with_states():
    batch = SampleBatch(a=[1, 2, 3], state_in_0=[10, 20], seq_lens=[1, 2])
    assert [row["state_in_0"] for row in batch.rows()] == [10, 20, 20]


def test_shuffle_moves_infos_with_the_rest():
    batch = SampleBatch(a=np.arange(20), infos=infos(20), nested={"t": torch.arange(20)})
    batch.shuffle(rng=0)
    assert batch.a.tolist() != list(range(20))
    assert batch.infos.tolist() == [f"info {i}" for i in batch.a]
    assert batch.nested.t.tolist() == batch.a.tolist()


def test_shuffle_of_zero_padded_data_is_refused_and_loses_nothing():
    batch = SampleBatch(a=[1, 2, 3], seq_lens=[1, 2]).right_zero_pad(2)
    with pytest.raises(ValueError, match="cannot be shuffled"):
        batch.shuffle()
    assert batch.a.tolist() == [1, 0, 2, 3]


@pytest.mark.parametrize("info", [{"x": np.arange(3)}, torch.arange(3), np.arange(3)], ids=["dict", "tensor", "array"])
def test_slicing_leaves_infos_in_the_source(info):
    batch = SampleBatch(a=[1, 2, 3], infos=info)
    before = batch.copy()
    part = batch[0:1]
    assert list(batch.keys()) == ["a", "infos"]
    assert batch == before
    assert len(part.infos) == 1


@pytest.mark.parametrize("states", [(0, 1), (0, None), (None, 2), (0, 3)])
def test_states_that_do_not_fit_are_named(states):
    batch = SampleBatch(a=[1, 2, 3, 4, 5, 6], seq_lens=[2, 3, 1])
    with pytest.raises(StructureError, match=r"state_end|sequences 0 to"):
        batch.slice(0, 4, *states)


def test_padding_twice():
    batch = SampleBatch(a=[1, 2, 3], seq_lens=[1, 2])
    assert batch.right_zero_pad(2).right_zero_pad(3).a.tolist() == [1, 0, 0, 2, 3, 0]
    assert batch.right_zero_pad(2).a.tolist() == [1, 0, 2, 3]


def test_concat_of_different_paddings_is_refused():
    one = SampleBatch(a=[1, 2, 3], seq_lens=[1, 2])
    with pytest.raises(ValueError, match="not padded, padded to 2"):
        one.concat(SampleBatch(a=[4], seq_lens=[1]).right_zero_pad(2))


def test_to_device_keeps_float64():
    assert SampleBatch(a=np.zeros(2)).to_device("cpu").a.dtype == torch.float64


def test_empty_dicts_lose_no_bytes_of_others():
    batch = SampleBatch(a=np.zeros(2), infos=infos(2))
    assert batch.size_bytes() == 16 + batch.infos.nbytes


def test_compression_by_row_makes_no_text_and_stays_small():
    batch = SampleBatch(obs=np.zeros((4, 3), np.float32)).compress()
    assert batch.obs.dtype == object
    assert batch.size_bytes() < 6432 / 10
    large = SampleBatch(obs=np.zeros((4, 3000), np.float32))
    assert large.copy().compress().size_bytes() < large.size_bytes() / 10


def test_a_column_that_is_compressed_as_a_whole_cannot_be_sliced_as_text():
    batch = SampleBatch(obs=np.zeros((4, 3)), a=np.arange(4)).compress(bulk=True)
    with pytest.raises(IndexError, match=r"'obs'.*compressed as a whole"):
        batch[1:3]


def test_decompressing_what_was_never_compressed_changes_nothing():
    batch = SampleBatch(obs=np.array(["ab", "cd"], object), new_obs=np.arange(2))
    before = batch.copy()
    assert batch.decompress_if_needed() == before


def two_policies() -> MultiAgentBatch:
    def steps(count: int) -> SampleBatch:
        return SampleBatch(a=np.arange(count), eps_id=np.zeros(count, int), t=np.arange(count))

    return MultiAgentBatch({"p": steps(2), "q": steps(1)}, 2)


def test_time_slices_without_agent_index():
    assert [piece.agent_steps() for piece in two_policies().timeslices(1)] == [2, 1]


def test_batches_of_equal_policies_are_equal():
    assert two_policies() == two_policies()
    other = two_policies()
    other["q"].a[0] = 7
    assert two_policies() != other


def test_iteration_says_what_to_do():
    with pytest.raises(IndexError, match=r"policy_batches.*timeslices\(\)"):
        iter(two_policies())
