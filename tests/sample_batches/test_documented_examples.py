"""RLlib's SampleBatch and MultiAgentBatch: examples of its page, defects that ours do not have, operations of Batch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from tests.ops.helpers import assert_array
from typedbatch import Batch, MultiAgentBatch, SampleBatch, stack
from typedbatch.errors import StructureError, TypedBatchError


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


def recurrent() -> SampleBatch:
    return SampleBatch(a=np.arange(1.0, 7.0), state_in_0=np.array([10.0, 20.0, 30.0]), seq_lens=[2, 3, 1])


OPERATIONS = {
    "empty_": lambda b: b.empty_(), "empty": lambda b: type(b).empty(b),
    "to_torch(float32)": lambda b: b.to_torch(torch.float32), "to_at_least_2d": lambda b: b.to_at_least_2d(),
    "times 2": lambda b: b * 2, "exp": np.exp,
}  # fmt: skip


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=OPERATIONS)
def test_sequences_stay_what_they_are_or_the_operation_is_refused(operation):
    try:
        found = operation(recurrent())
        assert len(found) == 6
    except TypedBatchError:
        return
    assert [len(piece) for piece in found.timeslices(num_slices=2)] == [3, 3]


KEEP_THE_COUNT = {name: operation for name, operation in OPERATIONS.items() if name not in ("times 2", "exp")}


@pytest.mark.parametrize("operation", KEEP_THE_COUNT.values(), ids=KEEP_THE_COUNT)
def test_the_count_of_env_steps_stays_or_the_operation_is_refused(operation):
    try:
        found = operation(MultiAgentBatch({"p": SampleBatch(a=np.arange(3.0))}, 2))
        assert (found.env_steps(), len(found), found.agent_steps()) == (2, 2, 3)
    except TypedBatchError:
        return


def test_writing_a_row_cannot_make_a_batch_of_other_sequences():
    batch = SampleBatch(a=[1, 2, 3, 4], state_in_0=[10, 20], seq_lens=[2, 2])
    with pytest.raises(StructureError, match="set a column instead"):
        batch[0] = {"a": 9}
    assert len(batch) == 4
    assert batch.state_in_0.tolist() == [10, 20]


def test_stacked_multi_agent_batches_fail_with_an_error_of_this_library():
    batch = MultiAgentBatch({"p": SampleBatch(a=[1])}, 1)
    with pytest.raises(TypedBatchError):
        stack([batch, batch]).env_steps()


def test_one_step_has_no_length_as_a_row_of_a_batch_has_none():
    with pytest.raises(TypeError):
        len(Batch(a=[1, 2])[0])
    with pytest.raises(TypeError):
        len(recurrent()[0])


def test_conversion_there_and_back_keeps_sequences():
    batch = recurrent()
    back = batch.to_torch().to_numpy()
    assert back == batch
    assert (type(back), len(batch.to_torch())) == (SampleBatch, 6)


def test_equality_sees_other_sequences():
    other = recurrent()
    other.seq_lens = [3, 2, 1]
    assert recurrent() == recurrent()
    assert recurrent() != other
    assert not recurrent().allclose(other)
