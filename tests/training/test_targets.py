"""Calls that add values, returns and advantages: equal to the functions they stand for, and strict about shapes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from typedbatch import Batch, BatchWithAdvantages, BatchWithReturns, RolloutBatch, convert, extend
from typedbatch.buffers import ReplayBuffer, compute_episodic_return, compute_nstep_return
from typedbatch.errors import SettingError, StructureError
from typedbatch.training import add_gae, add_nstep


def rollout(count: int, seed: int = 0) -> RolloutBatch:
    rng = np.random.default_rng(seed)
    ends = rng.random(count) < 0.3
    terminated = ends & (rng.random(count) < 0.5)
    return RolloutBatch(
        obs=rng.normal(size=(count, 3)).astype(np.float32), act=rng.integers(0, 2, count), rew=rng.normal(size=count),
        terminated=terminated, truncated=ends & ~terminated, obs_next=rng.normal(size=(count, 3)).astype(np.float32),
        info=Batch(),
    )  # fmt: skip


def critic(obs: Any) -> Any:
    return obs.sum(-1) / 7


@given(st.integers(1, 30), st.integers(0, 99), st.floats(0, 1), st.floats(0, 1))
def test_advantages_are_those_of_compute_episodic_return(count: int, seed: int, gamma: float, lam: float) -> None:
    batch = rollout(count, seed)
    before = copy.deepcopy(batch)
    now, after = critic(batch.obs), critic(batch.obs_next)
    returns, adv = compute_episodic_return(batch, v_s_=after, v_s=now, gamma=gamma, gae_lambda=lam)
    for out in (add_gae(batch, critic, gamma=gamma, lam=lam), add_gae(batch, column, gamma=gamma, lam=lam)):
        assert type(out) is BatchWithAdvantages
        np.testing.assert_allclose(out.adv, adv, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(out.returns, returns, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(out.v_s, now)
        assert out.obs is batch.obs
    assert batch == before


def column(obs: Any) -> Any:
    return critic(obs)[..., None]


def test_values_are_of_the_kind_of_the_rewards_and_carry_no_gradients() -> None:
    batch, net = rollout(6), torch.nn.Linear(3, 1)
    tensors = convert(batch, RolloutBatch[Tensor])
    out = add_gae(tensors, net, gamma=0.9, lam=0.9)
    assert [(one.dtype, one.requires_grad, one.shape) for one in (out.v_s, out.returns, out.adv)] == [
        (torch.float32, False, (6,))
    ] * 3
    arrays = add_gae(batch, lambda obs: net(torch.as_tensor(obs)), gamma=0.9, lam=0.9)
    np.testing.assert_allclose(arrays.adv, out.adv, rtol=1e-6)
    assert arrays.adv.dtype == np.float32
    assert torch.is_grad_enabled()


def test_a_truncated_episode_counts_its_last_value_and_a_terminated_one_does_not() -> None:
    batch = rollout(2)
    batch.terminated, batch.truncated = np.array([True, False]), np.array([False, True])
    out = add_gae(batch, lambda obs: np.full(len(obs), 10.0), gamma=0.5, lam=1.0)
    np.testing.assert_allclose(out.returns, batch.rew + np.array([0, 5]))


def test_fields_of_a_derived_record_stay() -> None:
    class Own(RolloutBatch):
        logp: np.ndarray

    batch = extend(rollout(4), Own, logp=np.arange(4.0))
    out: Any = add_gae(batch, critic, gamma=0.9, lam=0.9)
    assert out["logp"] is batch.logp


@pytest.mark.parametrize("shape", [(4, 2), (3,), (4, 1, 1), ()])
def test_one_value_for_each_reward_is_expected(shape: tuple[int, ...]) -> None:
    batch = rollout(4)
    before = copy.deepcopy(batch)
    said = r"critic must return one value for each reward, shape \[4\], got .*f64"
    with pytest.raises(StructureError, match=said):
        add_gae(batch, lambda obs: np.zeros(shape), gamma=0.9, lam=0.9)
    assert batch == before


def test_settings_are_by_name_and_checked() -> None:
    call: Any = add_gae
    with pytest.raises(TypeError, match="positional"):
        call(rollout(3), critic, 0.9, 0.9)
    with pytest.raises(SettingError, match="gamma"):
        add_gae(rollout(3), critic, gamma=1.5, lam=0.9)


def test_gradients_are_on_again_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError):
        add_gae(rollout(3), lambda obs: 1 // 0, gamma=0.9, lam=0.9)
    assert torch.is_grad_enabled()


@given(st.integers(1, 12), st.integers(0, 99), st.integers(1, 4))
def test_returns_are_those_of_compute_nstep_return(count: int, seed: int, n: int) -> None:
    buffer = ReplayBuffer[RolloutBatch](20)
    for row in rollout(count, seed):
        buffer.add(row)
    slots = buffer.sample_indices(0)
    batch = buffer[slots]
    expected = compute_nstep_return(batch, buffer, slots, lambda of, at: critic(of.get(at, "obs_next")), 0.9, n)
    for value in (critic, column, lambda obs: torch.as_tensor(column(obs))):
        out = add_nstep(batch, buffer, slots, value, gamma=0.9, n=n)
        assert type(out) is BatchWithReturns
        np.testing.assert_allclose(out.returns, expected.returns, rtol=1e-5, atol=1e-6)
        assert isinstance(out.returns, np.ndarray)


def test_a_target_of_several_heads_is_refused() -> None:
    buffer = ReplayBuffer[RolloutBatch](20)
    for row in rollout(5):
        buffer.add(row)
    slots = buffer.sample_indices(0)
    with pytest.raises(StructureError, match=r"target must return one value for each reward, shape \[5\]"):
        add_nstep(buffer[slots], buffer, slots, lambda obs: obs[:, :2], gamma=0.9, n=2)


@pytest.mark.filterwarnings("ignore:with ignore_obs_next=True")
@pytest.mark.parametrize(
    "options",
    [{"ignore_obs_next": True}, {"stack_num": 3}, {"stack_num": 3, "ignore_obs_next": True}],
    ids=["not stored", "in frames", "in frames and not stored"],
)
def test_the_observations_after_the_last_step_are_those_of_a_sample(options: dict[str, Any]) -> None:
    buffer: Any = ReplayBuffer(12, **options)
    buffer.extend(rollout(20))
    slots = buffer.sample_indices(40)
    seen: list[Any] = []

    def value(obs: Any) -> Any:
        seen.append(obs)
        return critic(obs.reshape(len(obs), -1))

    out = add_nstep(buffer[slots], buffer, slots, value, gamma=0.9, n=3)
    expected = compute_nstep_return(
        buffer[slots], buffer, slots, lambda of, at: value(of[at].obs_next), gamma=0.9, n_step=3
    )
    assert (seen[0] == seen[1]).all()
    assert seen[0].shape[1:] == (*[3] * ("stack_num" in options), 3)
    np.testing.assert_allclose(out.returns, expected.returns, rtol=1e-6)


def test_a_target_with_a_gradient() -> None:
    buffer: Any = ReplayBuffer(12)
    buffer.extend(rollout(9))
    slots = buffer.sample_indices(0)
    weight = torch.ones(3, requires_grad=True)

    @torch.enable_grad()
    def target(obs: Any) -> Any:
        return torch.as_tensor(obs) @ weight

    out = add_nstep(buffer[slots], buffer, slots, target, gamma=0.9, n=2)
    with torch.no_grad():
        expected = add_nstep(buffer[slots], buffer, slots, lambda obs: obs.sum(-1), gamma=0.9, n=2)
    np.testing.assert_allclose(out.returns, expected.returns, rtol=1e-5)


def test_a_get_of_the_buffers_own_is_called() -> None:
    class Halved(ReplayBuffer[Any, Any]):
        def get(self, index: Any, key: str, default_value: Any = None, stack_num: int | None = None) -> Any:
            value = super().get(index, key, default_value, stack_num)
            return value / 2 if key == "obs_next" else value

    buffer = Halved(12)
    buffer.extend(rollout(9))
    slots = buffer.sample_indices(0)
    seen: list[Any] = []
    add_nstep(buffer[slots], buffer, slots, lambda obs: seen.append(obs) or critic(obs), gamma=0.9, n=1)
    assert (seen[0] == buffer[slots].obs_next / 2).all()
