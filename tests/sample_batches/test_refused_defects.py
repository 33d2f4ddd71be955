"""Defects of RLlib's SampleBatch and MultiAgentBatch (ray 2.60), each with a test that ours does not have it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from tests.ops.helpers import assert_identical
from typedbatch import MultiAgentBatch, SampleBatch
from typedbatch.errors import MissingFieldError, SizeError, StructureError
from typedbatch.sample_batches.input_dict import ViewRequirement


def infos(count: int) -> np.ndarray:
    return np.array([f"info {i}" for i in range(count)], object)


# ---- length ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_columns_of_different_lengths_have_no_length(order):
    columns = {"a": np.arange(3), "b": np.arange(2)}
    with pytest.raises(StructureError, match="a has 3, others 2"):
        len(SampleBatch({name: columns[name] for name in order}))


def test_the_length_of_a_scalar_is_no_zero():
    with pytest.raises(TypeError, match="scalar"):
        len(SampleBatch({"a": 5}))


def test_a_column_set_later_counts():
    batch = SampleBatch()
    batch["a"] = [1, 2, 3]
    assert len(batch) == batch.count == 3


def test_a_replaced_column_counts():
    batch = SampleBatch(a=[1, 2, 3])
    batch["a"] = [1, 2, 3, 4, 5]
    assert len(batch) == batch.count == 5


def test_infos_and_states_count_as_columns_do():
    with pytest.raises(StructureError, match="different lengths"):
        len(SampleBatch(a=[1, 2, 3], infos=infos(2)))
    with pytest.raises(StructureError, match="different lengths"):
        len(SampleBatch(a=[1, 2, 3], state_in_0=[1.0, 2.0]))


# ---- concat and copy ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("one", "two"), [("a", "ab"), ("ab", "a")])
def test_concat_drops_no_extra_column(one, two):
    left, right = (SampleBatch({name: np.arange(2) for name in names}) for names in (one, two))
    with pytest.raises(StructureError, match="'b' is missing"):
        left.concat(right)


def test_a_deep_copy_copies_tensors():
    batch = SampleBatch(a=torch.zeros(2), nested={"b": torch.zeros(2)})
    copied = batch.copy()
    copied.a[0] = copied.nested.b[0] = 7
    assert batch.a.tolist() == batch.nested.b.tolist() == [0, 0]


def test_a_deep_copy_copies_objects():
    batch = SampleBatch(a=np.array([["x"], ["y"]], object).reshape(2))
    batch.a[0] = ["x"]
    copied = batch.copy()
    copied.a[0].append("z")
    assert batch.a[0] == ["x"]


# ---- rows and shuffling ---------------------------------------------------------------------------------------------


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


def test_shuffle_leaves_nothing_stale():
    batch = SampleBatch(a=np.arange(9))
    before = batch["a"]
    batch.shuffle(rng=1)
    assert batch["a"] is batch.a
    assert batch["a"] is not before


# ---- episodes -------------------------------------------------------------------------------------------------------


def test_a_dones_column_can_be_set_and_splits():
    batch = SampleBatch(a=[1, 2, 3], dones=[False, True, False])
    assert [piece.a.tolist() for piece in batch.split_by_episode()] == [[1, 2], [3]]
    assert batch["dones"].tolist() == [False, True, False]


def test_truncateds_alone_end_episodes():
    batch = SampleBatch(a=[1, 2, 3], truncateds=[False, True, False])
    assert [piece.a.tolist() for piece in batch.split_by_episode()] == [[1, 2], [3]]


def test_steps_of_an_episode_that_are_apart_come_together():
    batch = SampleBatch(a=[1, 2, 3, 4], eps_id=[0, 1, 0, 1])
    assert [piece.a.tolist() for piece in batch.split_by_episode()] == [[1, 3], [2, 4]]


# ---- slices ---------------------------------------------------------------------------------------------------------


def test_an_empty_slice_is_empty():
    assert SampleBatch(a=[1, 2, 3])[0:0].a.tolist() == []
    with_sequences = SampleBatch(a=[1, 2, 3], seq_lens=[1, 2])[0:0]
    assert (with_sequences.a.tolist(), with_sequences.seq_lens.tolist()) == ([], [])


def test_the_step_of_a_slice_counts():
    assert SampleBatch(a=[1, 2, 3])[::2].a.tolist() == [1, 3]
    assert SampleBatch(a=[1, 2, 3], seq_lens=[1, 2])[::2].a.tolist() == [1, 3]


def test_a_slice_does_not_snap_to_whole_sequences():
    part = SampleBatch(a=[1, 2, 3, 4, 5, 6], seq_lens=[2, 3, 1])[:3]
    assert (part.a.tolist(), part.seq_lens.tolist()) == ([1, 2, 3], [2, 1])


@pytest.mark.parametrize("info", [{"x": np.arange(3)}, torch.arange(3), np.arange(3)], ids=["dict", "tensor", "array"])
def test_slicing_leaves_infos_in_the_source(info):
    batch = SampleBatch(a=[1, 2, 3], infos=info)
    before = batch.copy()
    part = batch[0:1]
    assert list(batch.keys()) == ["a", "infos"]
    assert batch == before
    assert len(part.infos) == 1


def test_a_slice_has_no_missing_infos():
    assert SampleBatch(a=[1, 2, 3], infos=infos(3))[1:].infos.tolist() == ["info 1", "info 2"]


def test_a_negative_start_pads_without_seq_lens_too():
    batch = SampleBatch(a=[1, 2, 3, 4], obs={"x": np.ones((4, 2)), "o": infos(4)})
    part = batch.slice(-2, 1)
    assert part.a.tolist() == [0, 0, 1]
    assert part.obs.x.tolist() == [[0, 0], [0, 0], [1, 1]]
    assert part.obs.o.tolist() == [None, None, "info 0"]


def test_an_end_beyond_the_data_keeps_sequences_and_states():
    batch = SampleBatch(a=[1, 2, 3], state_in_0=[10, 20], seq_lens=[1, 2])
    part = batch.slice(0, 99)
    assert_identical(part, batch)


def test_a_negative_start_repairs_lengths_and_states():
    batch = SampleBatch(a=[1, 2, 3, 4, 5, 6], state_in_0=[1.0, 3.0, 6.0], seq_lens=[2, 3, 1])
    part = batch.slice(-2, 3)
    assert part.a.tolist() == [0, 0, 1, 2, 3]
    assert (part.seq_lens.tolist(), part.state_in_0.tolist()) == ([4, 1], [1.0, 3.0])


@pytest.mark.parametrize("states", [(0, 1), (0, None), (None, 2), (0, 3)])
def test_states_that_do_not_fit_are_named(states):
    batch = SampleBatch(a=[1, 2, 3, 4, 5, 6], seq_lens=[2, 3, 1])
    with pytest.raises(StructureError, match=r"state_end|sequences 0 to"):
        batch.slice(0, 4, *states)


def test_time_slices_end_when_the_size_does_not_divide_the_steps():
    pieces = SampleBatch(a=[1, 2, 3, 4, 5]).timeslices(size=2)
    assert [piece.a.tolist() for piece in itertools.islice(pieces, 9)] == [[1, 2], [3, 4], [5]]


@pytest.mark.parametrize("lens", [None, [2, 1]])
def test_more_time_slices_than_steps_repeat_no_row(lens):
    batch = SampleBatch(a=[1, 2, 3]) if lens is None else SampleBatch(a=[1, 2, 3], seq_lens=lens)
    pieces = batch.timeslices(num_slices=5)
    assert len(pieces) == 5
    assert [step for piece in pieces for step in piece.a.tolist()] == [1, 2, 3]


# ---- padding --------------------------------------------------------------------------------------------------------


def test_states_of_the_documented_shape_are_padded_too():
    batch = SampleBatch(a=[1, 2, 3], state_in_0=[[1.0], [3.0]], seq_lens=[1, 2])
    batch.right_zero_pad(2, exclude_states=False)
    assert batch.state_in_0.tolist() == [[1.0], [0.0], [3.0], [0.0]]
    assert len(batch) == 3


def test_padding_twice():
    batch = SampleBatch(a=[1, 2, 3], seq_lens=[1, 2])
    assert batch.right_zero_pad(2).right_zero_pad(3).a.tolist() == [1, 0, 0, 2, 3, 0]
    assert batch.right_zero_pad(2).a.tolist() == [1, 0, 2, 3]


def test_too_short_a_padding_is_named_and_changes_nothing():
    batch = SampleBatch(a=[1, 2, 3], seq_lens=[1, 2])
    with pytest.raises(SizeError, match="a sequence has 2 rows"):
        batch.right_zero_pad(1)
    assert batch.a.tolist() == [1, 2, 3]


def test_an_object_column_stays_an_array_when_padded():
    batch = SampleBatch(infos=infos(3), seq_lens=[1, 2]).right_zero_pad(2)
    assert type(batch.infos) is np.ndarray
    assert batch.infos.tolist() == ["info 0", None, "info 1", "info 2"]


def test_concat_of_different_paddings_is_refused():
    one = SampleBatch(a=[1, 2, 3], seq_lens=[1, 2])
    with pytest.raises(ValueError, match="not padded, padded to 2"):
        one.concat(SampleBatch(a=[4], seq_lens=[1]).right_zero_pad(2))


# ---- devices, bytes, compression ------------------------------------------------------------------------------------


def test_to_device_keeps_float64():
    assert SampleBatch(a=np.zeros(2)).to_device("cpu").a.dtype == torch.float64


def test_another_framework_is_a_setting_error():
    with pytest.raises(ValueError, match="only framework='torch', got 'tf'"):
        SampleBatch(a=np.zeros(2)).to_device("cpu", framework="tf")


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


# ---- input of models, equality --------------------------------------------------------------------------------------


def test_the_shift_counts_at_step_0():
    batch = SampleBatch(obs=[1, 2], actions=[10, 20])
    views = {"prev_actions": ViewRequirement("actions", shift=-1)}
    assert batch.get_single_step_input_dict(views, 0).prev_actions.tolist() == [0]


def test_the_last_input_names_the_missing_new_obs():
    with pytest.raises(MissingFieldError, match="new_obs"):
        SampleBatch(obs=[1, 2]).get_single_step_input_dict({"obs": ViewRequirement()})


def test_equality_answers():
    batch = SampleBatch(a=np.arange(3), b=torch.arange(6).reshape(3, 2), infos=infos(3))
    assert batch == batch.copy()
    other = batch.copy()
    other.b[1, 1] = -1
    assert batch != other


# ---- several agents -------------------------------------------------------------------------------------------------


def two_policies() -> MultiAgentBatch:
    def steps(count: int) -> SampleBatch:
        return SampleBatch(a=np.arange(count), eps_id=np.zeros(count, int), t=np.arange(count))

    return MultiAgentBatch({"p": steps(2), "q": steps(1)}, 2)


@pytest.mark.parametrize(("env_steps", "error"), [(999, StructureError), (4, StructureError), (-1, SizeError)])
def test_impossible_env_steps_are_refused(env_steps, error):
    with pytest.raises(error, match=str(env_steps)):
        MultiAgentBatch(two_policies().policy_batches, env_steps)


def test_time_slices_without_agent_index():
    assert [piece.agent_steps() for piece in two_policies().timeslices(1)] == [2, 1]


def test_two_rows_with_the_same_key_stay_in_order():
    batch = MultiAgentBatch({"p": SampleBatch(a=[5, 6], eps_id=[0, 0], t=[0, 0], agent_index=[1, 1])}, 1)
    (piece,) = batch.timeslices(1)
    assert piece["p"].a.tolist() == [5, 6]


def test_no_time_slices_of_nothing():
    assert MultiAgentBatch({}, 0).timeslices(1) == []


def test_time_slices_of_no_steps_are_refused():
    with pytest.raises(SizeError, match="1 or more, got 0"):
        two_policies().timeslices(0)


def test_batches_of_equal_policies_are_equal():
    assert two_policies() == two_policies()
    other = two_policies()
    other["q"].a[0] = 7
    assert two_policies() != other


def test_iteration_says_what_to_do():
    with pytest.raises(IndexError, match=r"policy_batches.*timeslices\(\)"):
        iter(two_policies())
