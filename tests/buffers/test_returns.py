"""n-step returns and advantages, against the same sums in plain Python loops."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.buffers.helpers import Step, assert_same, filled, transition, transitions
from typedbatch import errors
from typedbatch.buffers import (
    PrioritizedReplayBuffer,
    ReplayBuffer,
    VectorReplayBuffer,
    compute_episodic_return,
    compute_nstep_return,
)
from typedbatch.buffers.returns import sums_ahead
from typedbatch.errors import StructureError

GAMMAS = st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0])


@st.composite
def histories(draw: st.DrawFn, rew_shape: tuple[int, ...] = ()) -> tuple[Any, list[list[Step]]]:
    """A buffer of one ring or more, with room to spare or wrapped around, and what its rings hold, oldest first."""
    rings, capacity = draw(st.integers(1, 3)), draw(st.integers(1, 12))
    buffer = ReplayBuffer(capacity) if rings == 1 else VectorReplayBuffer(capacity * rings, rings)
    kept = filled(buffer, draw(st.integers(3, 30)), draw(st.integers(0, 2**32)), rew_shape=rew_shape)
    while not len(buffer):
        kept = filled(buffer, 5, draw(st.integers(0, 2**32)), rew_shape=rew_shape)
    return buffer, kept


def naive_nstep(ring: list[Step], place: int, q: Any, gamma: float, n_step: int) -> Any:
    total, factor = 0.0, 1.0
    for i in range(n_step):
        step = ring[place + i]
        total = total + factor * step.rew
        factor *= gamma
        if step.done or place + i == len(ring) - 1:
            break
    return total + (np.zeros_like(q[step.slot]) if step.terminated else factor * q[step.slot])


def naive_advantages(
    rings: list[list[Step]], after: dict[int, Any], now: dict[int, Any], gamma: float, gae_lambda: float
) -> list[Any]:
    out = []
    for ring in rings:
        advantages: list[Any] = []
        for step in reversed(ring):
            value = 0.0 if step.terminated else after[step.slot]
            advantage = step.rew + gamma * value - now[step.slot]
            if advantages and not step.done:
                advantage = advantage + gamma * gae_lambda * advantages[-1]
            advantages.append(advantage)
        out += advantages[::-1]
    return out


def snapshot(*values: Any) -> list[Any]:
    return copy.deepcopy(list(values))


@given(histories(), st.integers(1, 6), GAMMAS, st.sampled_from(["numpy", "torch", "heads", "torch heads"]), st.data())
def test_returns_over_n_steps_are_those_of_a_loop(history, n_step, gamma, kind, data):
    buffer, kept = history
    heads = (3,) if "heads" in kind else ()
    q = np.random.default_rng(0).normal(size=(buffer.maxsize, *heads))
    places = [(ring, place) for ring in kept for place in range(len(ring))]
    some = data.draw(st.lists(st.sampled_from(range(len(places))), min_size=1, max_size=20))
    indices = np.array([places[i][0][places[i][1]].slot for i in some])
    asked = []

    def target_q_fn(asked_buffer: Any, slots: Any) -> Any:
        asked.append((asked_buffer, slots))
        return torch.from_numpy(q[slots]) if "torch" in kind else q[slots]

    out = compute_nstep_return(buffer[indices], buffer, indices, target_q_fn, gamma, n_step)
    expected = np.array([naive_nstep(*places[i], q, gamma, n_step) for i in some])
    assert type(out.returns) is (torch.Tensor if "torch" in kind else np.ndarray)
    assert tuple(out.returns.shape) == (len(some), *heads)
    np.testing.assert_allclose(np.asarray(out.returns), expected, rtol=1e-10, atol=1e-10)
    assert asked[0][0] is buffer
    assert len(asked) == 1


@given(histories(rew_shape=(2,)), st.integers(1, 4))
def test_rewards_of_several_agents_have_returns_of_their_own(history, n_step):
    buffer, kept = history
    q = np.random.default_rng(0).normal(size=(buffer.maxsize, 2))
    indices = buffer.sample_indices(0)
    out = compute_nstep_return(buffer[:], buffer, indices, lambda _, slots: q[slots], 0.9, n_step)
    expected = [naive_nstep(ring, place, q, 0.9, n_step) for ring in kept for place in range(len(ring))]
    np.testing.assert_allclose(out.returns, np.array(expected), rtol=1e-10, atol=1e-10)


def episode(flags: str, size: int = 10, **options: Any) -> ReplayBuffer:
    """A row for each character, of reward 1: ``.`` goes on, ``T`` is terminated, ``L`` truncated, ``B`` both."""
    buffer = ReplayBuffer(size, **options)
    for i, flag in enumerate(flags):
        buffer.add(transition(i, terminated=flag in "TB", truncated=flag in "LB", rew=1.0))
    return buffer


def returns_of(buffer: ReplayBuffer, n_step: int, q: float = 100.0) -> list[float]:
    indices = buffer.sample_indices(0)
    out = compute_nstep_return(buffer[:], buffer, indices, lambda _, slots: np.full(len(slots), q), 0.5, n_step)
    return out.returns.tolist()


def test_a_value_that_is_not_a_number_does_not_count_behind_a_terminated_row():
    assert returns_of(episode(".T"), 1, q=float("nan"))[1] == 1.0
    assert returns_of(episode(".T"), 2, q=float("inf")) == [1.5, 1.0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_returns_have_the_dtype_of_the_targets(dtype):
    buffer = episode("..T")
    indices = np.arange(3)
    out = compute_nstep_return(buffer[:], buffer, indices, lambda _, slots: torch.ones(3, dtype=dtype), 0.5, 2)
    assert out.returns.dtype == dtype
    assert out.returns.tolist() == [1.75, 1.5, 1.0]
    if dtype in (torch.float32, torch.float64, torch.float16):
        given = np.ones(3, str(dtype).removeprefix("torch."))
        assert compute_nstep_return(buffer[:], buffer, indices, lambda *_: given, 0.5, 2).returns.dtype == given.dtype


def test_targets_of_whole_numbers_lose_no_fractions():
    buffer, indices = episode("..T"), np.arange(3)
    for targets in (np.ones(3, int), torch.ones(3, dtype=torch.int64)):
        out = compute_nstep_return(buffer[:], buffer, indices, lambda *_, t=targets: t, 0.5, 2)
        assert np.asarray(out.returns).tolist() == [1.75, 1.5, 1.0]


def test_a_column_of_values_is_refused_and_not_flattened():
    buffer = episode("..T")
    with pytest.raises(
        StructureError,
        match=r"target_q_fn must return one value for each reward, shape \[3\], .* squeeze\(-1\) removes the last axis",
    ):
        compute_nstep_return(buffer[:], buffer, np.arange(3), lambda *_: torch.ones(3, 1), 0.5, 1)
    columns = {"v_s_": torch.ones(3, 1)}, {"v_s_": np.ones(3), "v_s": np.ones((3, 1))}
    for values in columns:
        with pytest.raises(
            StructureError, match=r"must have shape \[3\], as rewards have, got \[3, 1\]; v_s_?.squeeze\(-1\) has it"
        ):
            compute_episodic_return(buffer[:], buffer, np.arange(3), **values)
    with pytest.raises(StructureError, match=r"v_s_ must have shape \[3\], as rewards have, got \[1, 3\]$"):
        compute_episodic_return(buffer[:], buffer, np.arange(3), v_s_=np.ones((1, 3)))


def test_no_gradient_flows_through_targets():
    buffer, weights = episode("..T"), torch.ones(3, requires_grad=True)
    recorded = []

    def target_q_fn(_: Any, slots: Any) -> Any:
        recorded.append(torch.is_grad_enabled())
        return weights * 2

    out = compute_nstep_return(buffer[:], buffer, np.arange(3), target_q_fn)
    assert recorded == [False]
    assert not out.returns.requires_grad
    assert torch.is_grad_enabled()
    leaf = compute_nstep_return(buffer[:], buffer, np.arange(3), lambda *_: weights)
    assert not leaf.returns.requires_grad


def test_everything_that_was_given_stays_as_it_is():
    buffer, indices = episode("..TL."), np.array([4, 0, 2, 2])
    targets = torch.arange(4.0)
    batch = buffer[indices]
    before = snapshot(batch, buffer[:], indices, targets)
    out = compute_nstep_return(batch, buffer, indices, lambda *_: targets, 0.9, 3)
    after = [batch, buffer[:], indices, targets]
    for one, other in zip(after, before, strict=True):
        assert_same(one, other)
    assert "returns" not in batch
    assert out is not batch
    assert out.obs is batch.obs
    array = np.arange(4.0)
    compute_nstep_return(batch, buffer, indices, lambda *_: array, 0.9, 3)
    assert array.tolist() == [0, 1, 2, 3]


def test_weights_become_tensors_where_returns_do():
    buffer = PrioritizedReplayBuffer(4, alpha=0.5, beta=0.5)
    for i in range(3):
        buffer.add(transition(i))
    batch, indices = buffer.sample(5)
    out = compute_nstep_return(batch, buffer, indices, lambda *_: torch.ones(5, dtype=torch.float32))
    assert type(out.weight) is torch.Tensor
    assert out.weight.dtype == torch.float32
    assert type(batch.weight) is np.ndarray
    out = compute_nstep_return(batch, buffer, indices, lambda *_: np.ones(5))
    assert type(out.weight) is np.ndarray


def test_rewards_and_flags_may_be_stored_as_tensors():
    buffer, twin = ReplayBuffer(5), episode("..TL.")
    for i, flag in enumerate("..TL."):
        flags = {"terminated": torch.tensor(flag == "T"), "truncated": torch.tensor(flag == "L")}
        buffer.add(transition(i, rew=torch.tensor(1.0), **flags))
    assert returns_of(buffer, 2) == returns_of(twin, 2)
    values = np.arange(5.0)
    ours, theirs = (compute_episodic_return(one[:], one, np.arange(5), values) for one in (buffer, twin))
    for mine, other in zip(ours, theirs, strict=True):
        assert type(mine) is torch.Tensor
        np.testing.assert_allclose(mine.numpy(), other, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:with ignore_obs_next=True")
def test_frames_do_not_change_returns():
    for flags in ("..TL.", "....."):
        assert returns_of(episode(flags, stack_num=3), 2) == returns_of(episode(flags), 2)
        assert returns_of(episode(flags, ignore_obs_next=True), 2) == returns_of(episode(flags), 2)


@pytest.mark.parametrize("n_step", [0, -1])
def test_fewer_than_one_step_are_refused(n_step):
    buffer = episode("...")
    with pytest.raises(errors.SizeError, match="n_step"):
        compute_nstep_return(buffer[:], buffer, np.arange(3), lambda *_: np.ones(3), n_step=n_step)


def test_lengths_that_differ_are_refused():
    buffer = episode("...")
    with pytest.raises(errors.StructureError, match=r"one index for each of .* rows is expected, got 2"):
        compute_nstep_return(buffer[:], buffer, np.arange(2), lambda *_: np.ones(2))
    for targets in (np.ones(2), np.ones((1, 3)), np.float64(1.0), torch.ones(4)):
        with pytest.raises(errors.StructureError, match="target_q_fn"):
            compute_nstep_return(buffer[:], buffer, np.arange(3), lambda *_, t=targets: t)


@given(histories(), GAMMAS, st.sampled_from([0.0, 0.5, 0.95, 1.0]), st.booleans(), st.booleans())
def test_advantages_are_those_of_a_loop(history, gamma, gae_lambda, as_tensors, with_v_s):
    buffer, kept = history
    indices, batch = buffer.sample_indices(0), buffer[:]
    rng = np.random.default_rng(0)
    after, now = rng.normal(size=(2, len(indices)))
    masked = np.where(batch.terminated, 0.0, after)
    v_s = now if with_v_s else np.roll(masked, 1)
    v_s_, given_v_s = (torch.from_numpy(one) if as_tensors else one for one in (after, now))
    returns, advantages = compute_episodic_return(
        batch, buffer, indices, v_s_, given_v_s if with_v_s else None, gamma, gae_lambda
    )
    by_slot = [dict(zip(indices.tolist(), values.tolist(), strict=True)) for values in (after, v_s)]
    expected = np.array(naive_advantages(kept, *by_slot, gamma, gae_lambda))
    assert returns.dtype == advantages.dtype == np.float64
    np.testing.assert_allclose(advantages, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(returns, expected + v_s, rtol=1e-9, atol=1e-9)


@given(histories(rew_shape=(2,)), st.sampled_from([0.0, 0.9, 1.0]))
def test_advantages_of_several_agents_are_those_of_a_loop(history, gae_lambda):
    buffer, kept = history
    indices = buffer.sample_indices(0)
    after, now = np.random.default_rng(0).normal(size=(2, len(indices), 2))
    _, advantages = compute_episodic_return(buffer[:], buffer, indices, after, now, 0.9, gae_lambda)
    by_slot = [dict(zip(indices.tolist(), values, strict=True)) for values in (after, now)]
    np.testing.assert_allclose(advantages, np.array(naive_advantages(kept, *by_slot, 0.9, gae_lambda)), atol=1e-9)


@given(histories(), GAMMAS)
def test_without_values_returns_are_discounted_sums_of_rewards(history, gamma):
    buffer, kept = history
    returns, advantages = compute_episodic_return(
        buffer[:], buffer, buffer.sample_indices(0), gamma=gamma, gae_lambda=1.0
    )
    nothing = dict.fromkeys(range(buffer.maxsize), 0.0)
    expected = naive_advantages(kept, nothing, nothing, gamma, 1.0)
    np.testing.assert_allclose(returns, expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(advantages, expected, rtol=1e-9, atol=1e-9)


def test_without_a_buffer_the_batch_ends_its_last_episode():
    batch = transitions(range(4), terminated=np.array([False, True, False, False]), rew=np.ones(4))
    returns, _ = compute_episodic_return(batch, gamma=0.5, gae_lambda=1.0)
    assert returns.tolist() == [1.5, 1.0, 1.5, 1.0]
    values = np.full(4, 100.0)
    returns, _ = compute_episodic_return(batch, v_s_=values, v_s=values, gamma=0.5, gae_lambda=1.0)
    assert returns.tolist() == [1.5, 1.0, 26.5, 51.0]


def test_values_that_are_not_numbers_do_not_count_behind_a_terminated_row():
    batch = transitions(range(3), terminated=np.array([False, True, True]), rew=np.ones(3))
    values = np.array([1.0, np.nan, np.inf])
    returns, advantages = compute_episodic_return(batch, v_s_=values, v_s=np.zeros(3), gamma=0.5, gae_lambda=0.5)
    assert np.isfinite(returns).all()
    assert advantages.tolist() == [1.75, 1.0, 1.0]


def test_rewards_of_one_kind_give_returns_of_that_kind():
    rows = transitions(range(3), rew=np.ones(3, np.float32))
    assert compute_episodic_return(rows, gae_lambda=1.0)[0].dtype == np.float64
    tensors = transitions(range(3), rew=torch.ones(3))
    assert compute_episodic_return(tensors, gae_lambda=1.0)[0].dtype == torch.float32
    whole = transitions(range(3), rew=torch.ones(3, dtype=torch.int64))
    assert compute_episodic_return(whole, gamma=0.5, gae_lambda=1.0)[0].tolist() == [1.75, 1.5, 1.0]


def test_no_gradient_flows_through_advantages():
    values = torch.ones(3, requires_grad=True)
    rows = transitions(range(3), rew=torch.ones(3))
    for out in compute_episodic_return(rows, v_s_=values, v_s=values * 2):
        assert not out.requires_grad


def test_everything_that_advantages_are_computed_from_stays_as_it_is():
    buffer = episode(".T.L.")
    batch, indices = buffer[:], np.arange(5)
    for values in (np.arange(5.0), torch.arange(5.0)):
        given = [batch, buffer[:], indices, values, values + 1]
        before = snapshot(*given)
        returns, advantages = compute_episodic_return(batch, buffer, indices, values, given[-1])
        returns[:] = advantages[:] = -1
        for one, other in zip(given, before, strict=True):
            assert_same(one, other)


def test_an_empty_batch_has_empty_returns():
    buffer = episode("...")
    returns, advantages = compute_episodic_return(transitions([]), gae_lambda=1.0)
    assert returns.shape == advantages.shape == (0,)
    returns, _ = compute_episodic_return(buffer[[]], buffer, np.zeros(0, int), np.zeros(0))
    assert returns.shape == (0,)
    out = compute_nstep_return(buffer[[]], buffer, np.zeros(0, int), lambda _, slots: np.zeros(len(slots)), n_step=3)
    assert out.returns.shape == (0,)


def test_values_are_needed_unless_lambda_is_one():
    with pytest.raises(errors.SettingError, match="gae_lambda"):
        compute_episodic_return(transitions(range(3)))
    compute_episodic_return(transitions(range(3)), gae_lambda=1.0)


@pytest.mark.parametrize("wrong", ["v_s_", "v_s"])
def test_values_of_another_length_are_refused_by_name(wrong):
    values = {"v_s_": np.ones(3), "v_s": np.ones(3), wrong: np.ones(4)}
    with pytest.raises(errors.StructureError, match=wrong):
        compute_episodic_return(transitions(range(3)), **values)


def test_a_buffer_and_indices_belong_together():
    buffer = episode("...")
    for more in ({"buffer": buffer}, {"indices": np.arange(3)}):
        with pytest.raises(errors.StructureError, match="together"):
            compute_episodic_return(buffer[:], **more, gae_lambda=1.0)
    with pytest.raises(errors.StructureError, match=r"one index for each of .* rows is expected, got 2"):
        compute_episodic_return(buffer[:], buffer, np.arange(2), gae_lambda=1.0)


@given(st.integers(0, 70), st.integers(0, 2**32), st.sampled_from([(), (2,), (1,)]), st.sampled_from([0.0, 0.2, 1.0]))
def test_sums_ahead_are_those_of_a_loop(rows, seed, shape, ends):
    rng = np.random.default_rng(seed)
    values, factors = rng.normal(size=(rows, *shape)), rng.random(rows)
    factors[rng.random(rows) < ends] = 0.0
    before = values.copy(), factors.copy()
    expected, ahead = np.zeros_like(values), np.zeros(shape)
    for t in range(rows - 1, -1, -1):
        ahead = values[t] + factors[t] * ahead
        expected[t] = ahead
    out = sums_ahead(values, factors)
    np.testing.assert_allclose(out, expected, rtol=1e-10, atol=1e-10)
    assert out.shape == values.shape
    np.testing.assert_array_equal(values, before[0])
    np.testing.assert_array_equal(factors, before[1])


def test_sums_ahead_of_long_episodes_without_a_discount_are_exact():
    out = sums_ahead(np.ones(5000), np.ones(5000))
    assert out.tolist() == list(range(5000, 0, -1))
    whole = sums_ahead(np.ones(5, np.float32), np.full(5, 0.5, np.float32))
    assert whole.dtype == np.float64
    assert whole.tolist() == [1.9375, 1.875, 1.75, 1.5, 1.0]


def test_a_reward_that_is_not_a_number_does_not_reach_into_the_episode_before():
    batch = transitions(range(3), terminated=np.array([False, True, True]), rew=np.array([1.0, 1.0, np.nan]))
    returns, _ = compute_episodic_return(batch, gamma=0.5, gae_lambda=1.0)
    assert returns[:2].tolist() == [1.5, 1.0]
