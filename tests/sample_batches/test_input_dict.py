"""Input of a model at one step of a trajectory, by view requirements."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from typedbatch import SampleBatch
from typedbatch.errors import MissingFieldError, RowIndexError, SettingError, TypedBatchError
from typedbatch.sample_batches.input_dict import ViewRequirement


def trajectory() -> SampleBatch:
    return SampleBatch(
        obs=[1, 2, 3], new_obs=[2, 3, 4], actions=[10, 20, 30], rewards=[0.1, 0.2, 0.3],
        cam={"x": [[1.0], [2.0], [3.0]]},
    )  # fmt: skip


def read(index: Any = "last", batch: SampleBatch | None = None, **views: ViewRequirement) -> SampleBatch:
    return (trajectory() if batch is None else batch).get_single_step_input_dict(views, index)


def test_it_is_a_batch_of_one_row_on_the_same_memory():
    batch = trajectory()
    found = read(1, batch, obs=ViewRequirement())
    assert type(found) is SampleBatch
    assert len(found) == 1
    assert found.seq_lens.tolist() == [1]
    assert np.shares_memory(found.obs, batch.obs)


@pytest.mark.parametrize(
    ("shift", "seen"),
    [
        (0, [2]), (-1, [1]), (1, [3]), (-2, [0]), (2, [0]), ([-1, 0], [[1, 2]]), ([0, -1], [[2, 1]]), ([0], [[2]]),
        ("-3:0", [[0, 0, 1, 2]]), ("-1:1", [[1, 2, 3]]), ("-2:0:2", [[0, 2]]), (np.array([-1, 1]), [[1, 3]]),
    ],
)  # fmt: skip
def test_shifts_at_a_step(shift, seen):
    assert read(1, seen=ViewRequirement("obs", shift=shift)).seen.tolist() == seen


@pytest.mark.parametrize(
    ("shift", "seen"), [(0, [4]), (-1, [3]), ([-1, 0], [[3, 4]]), ("-5:0", [[0, 0, 1, 2, 3, 4]]), (1, [0])]
)
def test_shifts_of_the_observation_at_the_end(shift, seen):
    assert read(seen=ViewRequirement("obs", shift=shift)).seen.tolist() == seen


def test_what_went_before_the_end_is_the_last_action_and_reward():
    found = read(
        prev_actions=ViewRequirement("actions", shift=-1),
        prev_rewards=ViewRequirement("rewards", shift=-1),
        last_two=ViewRequirement("actions", shift="-2:-1"),
    )
    assert (found.prev_actions.tolist(), found.prev_rewards.tolist()) == ([30], [0.3])
    assert found.last_two.tolist() == [[20, 30]]


@given(st.integers(1, 5), st.data())
def test_windows_are_those_of_a_naive_loop(steps, data):
    step = data.draw(st.integers(0, steps - 1))
    first = data.draw(st.integers(-6, 0))
    batch = SampleBatch(obs=np.arange(1, steps + 1))
    expected = [step + shift + 1 if step + shift >= 0 else 0 for shift in range(first, 1)]
    assert read(step, batch, seen=ViewRequirement("obs", shift=f"{first}:0")).seen.tolist() == [expected]
    assert read(step - steps, batch, seen=ViewRequirement("obs", shift=f"{first}:0")).seen.tolist() == [expected]


def test_nested_columns_tensors_and_objects():
    batch = SampleBatch(cam={"x": [[1.0], [2.0]]}, t=torch.tensor([1, 2]), o=np.array(["a", "b"], object))
    found = read(0, batch, cam=ViewRequirement(shift=[-1, 0]), t=ViewRequirement(shift=-1), o=ViewRequirement(shift=-1))
    assert found.cam.x.tolist() == [[[0.0], [1.0]]]
    assert torch.equal(found.t, torch.tensor([0]))
    assert found.o.tolist() == [None]


def test_views_that_are_not_for_actions_are_left_out():
    found = read(0, obs=ViewRequirement(), nope=ViewRequirement(used_for_compute_actions=False))
    assert list(found.keys()) == ["obs", "seq_lens"]


def test_requirements_of_rllib_are_read_by_their_attributes():
    view = SimpleNamespace(data_col="obs", shift=-1, used_for_compute_actions=True, space=None)
    assert read(2, seen=view).seen.tolist() == [2]


def test_padding_is_not_seen():
    batch = SampleBatch(obs=[1, 2, 3], seq_lens=[1, 2]).right_zero_pad(3)
    assert read(1, batch, obs=ViewRequirement()).obs.tolist() == [2]
    assert read(1, batch, both=ViewRequirement("obs", shift="-1:0")).both.tolist() == [[1, 2]]


def test_the_state_is_that_of_the_sequence_of_the_step():
    batch = SampleBatch(obs=[1, 2, 3, 4], state_in_0=[10, 20], seq_lens=[3, 1])
    for step, state in enumerate([10, 10, 10, 20]):
        try:
            found = read(step, batch, state_in_0=ViewRequirement())
        except TypedBatchError:
            continue
        assert found.state_in_0.tolist() == [state]


REFUSED = [
    ({"nope": ViewRequirement()}, 0, MissingFieldError, "no field 'nope'"),
    ({"seen": ViewRequirement("ob")}, 0, MissingFieldError, "did you mean 'obs'"),
    ({"obs": ViewRequirement()}, 3, RowIndexError, "step 3 does not exist in a batch of 3 steps"),
    ({"obs": ViewRequirement()}, -4, RowIndexError, "step -4 does not exist in a batch of 3 steps"),
    ({"obs": ViewRequirement(shift="x")}, 0, SettingError, "'obs': a shift must be an int"),
    ({"obs": ViewRequirement(shift="1")}, 0, SettingError, "got '1'"),
    ({"obs": ViewRequirement(shift="1:2:0")}, 0, SettingError, "got '1:2:0'"),
    ({"obs": ViewRequirement(shift=None)}, 0, SettingError, "got None"),
    ({"obs": ViewRequirement(shift=0.5)}, 0, SettingError, r"got 0\.5"),
    ({"obs": ViewRequirement()}, "first", TypedBatchError, "first"),
    ({"obs": ViewRequirement()}, 1.5, TypedBatchError, r"1\.5"),
    ({"obs": ViewRequirement()}, None, TypedBatchError, "None"),
]


@pytest.mark.parametrize(("views", "index", "error", "text"), REFUSED, ids=[f"{r[1]}: {r[3]}" for r in REFUSED])
def test_what_is_refused(views, index, error, text):
    batch = trajectory()
    with pytest.raises(error, match=text):
        batch.get_single_step_input_dict(views, index)
    assert batch == trajectory()


def test_the_end_needs_new_obs_for_observations_alone():
    batch = SampleBatch(obs=[1, 2], actions=[10, 20])
    assert read("last", batch, prev_actions=ViewRequirement("actions", shift=-1)).prev_actions.tolist() == [20]
    with pytest.raises(MissingFieldError, match="new_obs"):
        read("last", batch, obs=ViewRequirement())


def test_errors_name_the_column_and_no_inner_one():
    batch = SampleBatch(obs=np.zeros(2), dist=torch.distributions.Normal(torch.zeros(2), 1.0))
    with pytest.raises(RowIndexError, match="field 'dist'"):
        read(0, batch, dist=ViewRequirement(shift=-1))


def test_no_steps():
    batch = SampleBatch(obs=np.zeros((0, 2)), new_obs=np.zeros((0, 2)))
    with pytest.raises(RowIndexError, match="a batch must have a step"):
        read(0, batch, obs=ViewRequirement())
    with pytest.raises(TypedBatchError, match=r"obs|step"):
        read("last", batch, obs=ViewRequirement())
