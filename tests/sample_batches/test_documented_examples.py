"""Examples of RLlib's reference page of SampleBatch and MultiAgentBatch that no other test here has."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.ops.helpers import assert_array
from typedbatch import Batch, MultiAgentBatch, SampleBatch


def lists(batch: Batch) -> dict[str, list]:
    return {name: column.tolist() for name, column in batch.items()}


def test_copy_is_deep_unless_shallow():
    batch = SampleBatch({"a": np.array([1, 2]), "nested": {"b": np.array([3, 4])}})
    deep, shallow = batch.copy(), batch.copy(shallow=True)
    batch.a[0], batch.nested.b[0] = 9, 9
    assert (deep.a.tolist(), deep.nested.b.tolist()) == ([1, 2], [3, 4])
    assert shallow.a is batch.a
    assert shallow.nested.b is batch.nested.b
    shallow.new = [1, 2]
    assert "new" not in batch


def test_rows_have_seq_lens_of_1():
    batch = SampleBatch({"a": [1, 2, 3], "b": [4, 5, 6], "seq_lens": [1, 2]})
    assert isinstance(batch.rows(), Iterator)
    assert list(batch.rows()) == [
        {"a": 1, "b": 4, "seq_lens": 1},
        {"a": 2, "b": 5, "seq_lens": 1},
        {"a": 3, "b": 6, "seq_lens": 1},
    ]


def test_columns_in_the_order_of_the_keys():
    batch = SampleBatch({"a": [1], "b": [2], "c": [3]})
    assert [column.tolist() for column in batch.columns(["a", "b"])] == [[1], [2]]
    assert [column.tolist() for column in batch.columns(["c", "a"])] == [[3], [1]]


def test_shuffle_with_seq_lens_is_a_value_error():
    with pytest.raises(ValueError, match="cannot be shuffled"):
        SampleBatch({"a": [1, 2, 3, 4], "seq_lens": [2, 2]}).shuffle()


@pytest.mark.parametrize(
    ("columns", "pieces"),
    [
        ({"a": [1, 2, 3], "eps_id": [0, 0, 1]}, [{"a": [1, 2], "eps_id": [0, 0]}, {"a": [3], "eps_id": [1]}]),
        (
            {"a": [1, 2, 3, 4, 5], "dones": [0, 0, 1, 0, 1]},
            [{"a": [1, 2, 3], "dones": [0, 0, 1]}, {"a": [4, 5], "dones": [0, 1]}],
        ),
        (
            {"a": [1, 2, 3, 4, 5], "dones": [0, 0, 1, 0, 0]},
            [{"a": [1, 2, 3], "dones": [0, 0, 1]}, {"a": [4, 5], "dones": [0, 0]}],
        ),
        ({"a": [1, 2, 3, 4, 5], "dones": [0, 0, 0, 0, 0]}, [{"a": [1, 2, 3, 4, 5], "dones": [0, 0, 0, 0, 0]}]),
    ],
    ids=["by eps_id", "by dones", "the last episode is open", "no end at all"],
)
def test_split_by_episode(columns, pieces):
    assert [lists(piece) for piece in SampleBatch(columns).split_by_episode()] == pieces


def test_slice_shares_memory():
    batch = SampleBatch({"a": np.arange(5)})
    part = batch.slice(1, 3)
    assert part.a.tolist() == [1, 2]
    assert np.shares_memory(part.a, batch.a)


def test_timeslices_k_is_deprecated():
    batch = SampleBatch({"a": np.arange(4)})
    with pytest.warns(DeprecationWarning, match="size="):
        pieces = batch.timeslices(k=2)
    assert [piece.a.tolist() for piece in pieces] == [[0, 1], [2, 3]]


def test_right_zero_pad_leaves_states():
    batch = SampleBatch({"a": [1, 2, 3], "state_in_0": [1.0, 3.0], "seq_lens": [1, 2]})
    assert lists(batch.right_zero_pad(max_seq_len=5)) == {
        "a": [1, 0, 0, 0, 0, 2, 3, 0, 0, 0],
        "state_in_0": [1.0, 3.0],
        "seq_lens": [1, 2],
    }


def test_right_zero_pad_of_states_too():
    batch = SampleBatch({"a": [1, 2, 3], "state_in_0": [1.0, 3.0], "seq_lens": [1, 2]})
    batch.right_zero_pad(max_seq_len=2, exclude_states=False)
    assert_array(batch.state_in_0, [1.0, 0.0, 3.0, 0.0])


def test_to_device_makes_tensors():
    batch = SampleBatch({"a": np.array([1.0, 2.0], np.float32), "infos": np.array(["x", "y"], object)})
    assert batch.to_device("cpu") is batch
    assert isinstance(batch.a, torch.Tensor)
    assert batch.infos.tolist() == ["x", "y"]


def test_size_bytes_sums_the_buffers():
    batch = SampleBatch({"a": np.zeros((3, 2), np.float32), "nested": {"b": np.zeros(3)}, "c": torch.zeros(3)})
    assert batch.size_bytes() == 24 + 24 + 12


def test_get_with_a_default():
    batch = SampleBatch({"a": [1]})
    assert batch.get("a").tolist() == [1]
    assert batch.get("b") is None
    assert batch.get("b", default=5) == 5


def test_as_multi_agent_has_the_default_policy():
    batch = SampleBatch({"a": [1, 2]})
    multi = batch.as_multi_agent()
    assert type(multi) is MultiAgentBatch
    assert list(multi.policy_batches) == ["default_policy"]
    assert multi.policy_batches["default_policy"] is batch
    assert multi.count == 2
    assert multi.as_multi_agent() is multi


@pytest.mark.parametrize("bulk", [False, True])
def test_compress_takes_the_observations_by_default(bulk):
    batch = SampleBatch({"obs": np.zeros((3, 4)), "new_obs": np.ones((3, 4)), "rewards": np.zeros(3)})
    before = batch.copy()
    assert batch.compress(bulk=bulk) is batch
    assert_array(batch.rewards, np.zeros(3))
    assert all(not isinstance(batch[name], np.ndarray) or batch[name].dtype == object for name in ("obs", "new_obs"))
    assert batch.decompress_if_needed() is batch
    assert batch == before


def test_wrap_as_needed():
    batch = SampleBatch({"a": [1, 2]})
    assert MultiAgentBatch.wrap_as_needed({"default_policy": batch}, 2) is batch
    for several in ({"default_policy": batch, "other": batch}, {"other": batch}, {}):
        wrapped = MultiAgentBatch.wrap_as_needed(several, len(several) and 2)
        assert type(wrapped) is MultiAgentBatch
        assert list(wrapped.policy_batches) == list(several)


def test_copy_of_a_multi_agent_batch_is_deep():
    batch = MultiAgentBatch({"p": SampleBatch(a=np.array([1, 2]), b=torch.tensor([1, 2]))}, 2)
    copied = batch.copy()
    batch.policy_batches["p"].a[0] = batch.policy_batches["p"].b[0] = 9
    assert copied.policy_batches["p"].a.tolist() == copied.policy_batches["p"].b.tolist() == [1, 2]


def test_size_bytes_of_all_policies():
    batch = MultiAgentBatch({"p": SampleBatch(a=np.zeros(3)), "q": SampleBatch(a=np.zeros(2, np.int8))}, 3)
    assert batch.size_bytes() == 26


def test_compression_of_all_policies():
    batch = MultiAgentBatch({"p": SampleBatch(obs=np.zeros(3)), "q": SampleBatch(new_obs=np.ones((2, 4)))}, 3)
    before = batch.copy()
    assert batch.compress(bulk=True) is None
    assert batch != before
    assert batch.decompress_if_needed() is batch
    assert batch == before
