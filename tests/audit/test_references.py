"""Formulas by reference, each beside the same by hand, one trajectory and number at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from typedbatch.audit import references as of


def steps(seed: int, *shape: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    drawn = {name: torch.randn(*shape, generator=generator).double() for name in ("rew", "values", "next_values")}
    flags = {name: torch.rand(*shape, generator=generator) < 0.25 for name in ("terminated", "truncated")}
    return {**drawn, **flags}


def each(made: dict[str, Tensor]) -> Any:
    """Yield the arguments of each environment as lists."""
    for b in range(made["rew"].shape[1]):
        yield b, {name: value[:, b].tolist() for name, value in made.items()}


@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 3))
def test_gae_is_the_sum_of_discounted_errors(seed: int, length: int, envs: int):
    made, gamma, lam = steps(seed, length, envs), 0.9, 0.8
    found = of.gae(**made, gamma=gamma, lam=lam)
    for b, one in each(made):
        for t in range(length):
            total = 0.0
            for k in range(t, length):
                after = 0.0 if one["terminated"][k] else one["next_values"][k]
                total += (gamma * lam) ** (k - t) * (one["rew"][k] + gamma * after - one["values"][k])
                if one["terminated"][k] or one["truncated"][k]:
                    break
            assert found[t, b] == pytest.approx(total)


@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(1, 5))
def test_nstep_adds_up_rewards_and_the_value_after_them(seed: int, length: int, n: int):
    made, gamma = steps(seed, length, 2), 0.9
    del made["values"]
    found = of.nstep(**made, gamma=gamma, n=n)
    for b, one in each(made):
        for t in range(length):
            total, k = 0.0, t
            while True:
                total += gamma ** (k - t) * one["rew"][k]
                if one["terminated"][k]:
                    break
                if one["truncated"][k] or k - t == n - 1 or k == length - 1:
                    total += gamma ** (k - t + 1) * one["next_values"][k]
                    break
                k += 1
            assert found[t, b] == pytest.approx(total)


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_vtrace_on_policy_is_that_of_td_lambda(seed: int, length: int):
    made = steps(seed, length, 2)
    ones = torch.ones_like(made["rew"])
    targets = of.vtrace(**made, ratio=ones, gamma=0.9, lam=0.7)
    assert torch.allclose(targets, of.gae(**made, gamma=0.9, lam=0.7) + made["values"])


def test_vtrace_clips_each_ratio():
    made = steps(3, 6)
    made["terminated"][:], made["truncated"][:] = False, False
    ratio = torch.tensor([0.5, 2.0, 1.0, 3.0, 0.1, 1.5]).double()
    v, after, rew = made["values"], made["next_values"], made["rew"]
    found = of.vtrace(**made, ratio=ratio, gamma=0.9, largest_rho=1.2, largest_c=0.8)
    for t in range(6):
        total, trace = 0.0, 1.0
        for k in range(t, 6):
            total += 0.9 ** (k - t) * trace * min(1.2, float(ratio[k])) * float(rew[k] + 0.9 * after[k] - v[k])
            trace *= min(0.8, float(ratio[k]))
        assert found[t] == pytest.approx(float(v[t]) + total)


def test_targets_of_critics():
    rew, ends = torch.tensor([1.0, 2.0]), torch.tensor([False, True])
    slow, online = torch.tensor([[1.0, 5.0], [7.0, 8.0]]), torch.tensor([[3.0, 2.0], [0.0, 1.0]])
    assert of.dqn_target(rew, slow, ends, 0.5).tolist() == [3.5, 2.0]
    assert of.double_dqn_target(rew, slow, online, ends, 0.5).tolist() == [1.5, 2.0]
    one, other, logp = torch.tensor([4.0, 1.0]), torch.tensor([2.0, 9.0]), torch.tensor([-1.0, -1.0])
    assert of.sac_target(rew, one, other, logp, ends, 0.5, 0.2).tolist() == pytest.approx([1 + 0.5 * 2.2, 2.0])
    log_alpha = torch.zeros((), requires_grad=True)
    of.sac_temperature_loss(log_alpha, torch.tensor([-1.0, -3.0]), target_entropy=-1.0).backward()
    assert log_alpha.grad == 3.0  # the entropy is above its target, so that alpha falls


def test_a_projection_keeps_the_mean_inside_of_the_support():
    support = torch.linspace(-2, 2, 9)
    probs = torch.rand(5, 9).softmax(-1)
    rew, ends = torch.tensor([0.1, -0.2, 0.0, 0.3, 9.0]), torch.tensor([False, False, True, True, False])
    moved = of.c51_projection(probs, rew, ends, 0.5, support)
    assert torch.allclose(moved.sum(-1), torch.ones(5))
    expected = rew + 0.5 * ~ends * (probs * support).sum(-1)
    assert torch.allclose((moved * support).sum(-1)[:4], expected[:4], atol=1e-5)
    assert moved[4, -1] == pytest.approx(1.0)


def test_losses_of_policies_and_values():
    logp, old, adv = torch.tensor([0.0, 0.0, 0.0]), torch.tensor([-0.5, 0.5, 0.1]), torch.tensor([1.0, -1.0, 2.0])
    each = [min(math.exp(a - b) * c, min(max(math.exp(a - b), 0.8), 1.2) * c) for a, b, c in
            zip(logp.tolist(), old.tolist(), adv.tolist(), strict=True)]  # fmt: skip
    assert of.ppo_clip(logp, old, adv) == pytest.approx(-sum(each) / 3)
    assert of.ppo_clip(logp[:1], old[:1], adv[:1], (0.2, 0.28)) == pytest.approx(-1.28)
    mask = torch.tensor([True, False, True])
    assert of.ppo_clip(logp, old, adv, mask=mask, reduction="sum") == pytest.approx(-each[0] - each[2])
    assert of.value_loss(torch.tensor([1.0, 3.0]), torch.tensor([0.0, 0.0])) == pytest.approx(0.5 * 10 / 2)
    found = of.clipped_value_loss(torch.tensor([2.0]), torch.tensor([0.0]), torch.tensor([3.0]), 0.5)
    assert found == pytest.approx(0.5 * 2.5**2)


def test_a_mean_over_sequences_leaves_out_those_without_tokens():
    losses, mask = torch.tensor([[1.0, 3.0], [5.0, 9.0], [7.0, 7.0]]), torch.tensor([[1, 1], [1, 0], [0, 0]]).bool()
    assert of.reduced(losses, mask) == 3.0
    assert of.reduced(losses, mask, "sequence") == 3.5


def test_losses_of_preferences():
    sides = [torch.tensor([value]) for value in (-1.0, -3.0, -2.0, -2.5)]
    margin = (-1 + 2) - (-3 + 2.5)
    assert of.dpo(*sides, beta=0.2) == pytest.approx(math.log(1 + math.exp(-0.2 * margin)))
    assert of.ipo(*sides, beta=0.2) == pytest.approx((margin - 2.5) ** 2)
    logp, ref, good = torch.tensor([-1.0, -2.0]), torch.tensor([-2.0, -1.0]), torch.tensor([True, False])
    value = 1 / (1 + math.exp(-0.1 * (1 - 0.3)))
    other = 1 / (1 + math.exp(-0.1 * (0.3 + 1)))
    expected = (1 * (1 - value) + 2 * (1 - other)) / 2
    assert of.kto(logp, ref, good, torch.tensor(0.3), weights=(1.0, 2.0)) == pytest.approx(expected)


def test_advantages_of_groups():
    rewards, uid = torch.tensor([1.0, 5.0, 3.0, 2.0, 2.0, 8.0]), torch.tensor([0, 1, 0, 1, 1, 0])
    of_zero, others = np.array([1.0, 3.0, 8.0]), [(3 + 8) / 2, (1 + 8) / 2, (1 + 3) / 2]
    found = of.grpo_advantages(rewards, uid)[[0, 2, 5]]
    assert found.tolist() == pytest.approx(((of_zero - of_zero.mean()) / (of_zero.std(ddof=1) + 1e-4)).tolist())
    assert of.rloo_advantages(rewards, uid)[[0, 2, 5]].tolist() == pytest.approx((of_zero - others).tolist())


def test_estimates_of_a_divergence_have_its_mean():
    policy, reference = torch.tensor([0.2, 0.5, 0.3]).double(), torch.tensor([0.4, 0.4, 0.2]).double()
    exact = float((policy * (policy / reference).log()).sum())
    for kind in ("k1", "k3"):
        assert (policy * of.kl_estimate(policy.log(), reference.log(), kind)).sum() == pytest.approx(exact)
    assert float(of.kl_estimate(policy.log(), reference.log(), "k3").min()) >= 0
    assert of.kl_estimate(torch.tensor(1.0), torch.tensor(3.0), "k2") == 2.0


def test_distillation_is_a_divergence_of_whole_distributions():
    student, teacher = torch.randn(2, 3, 4), torch.randn(2, 3, 4)
    mask = torch.tensor([[True, True, False], [True, False, False]])
    p, q = teacher.softmax(-1), student.softmax(-1)
    forward, reverse = (p * (p / q).log()).sum(-1)[mask].mean(), (q * (q / p).log()).sum(-1)[mask].mean()
    assert of.distillation_kl(student, teacher, mask) == pytest.approx(float(forward), rel=1e-5)
    assert of.distillation_kl(student, teacher, mask, reverse=True) == pytest.approx(float(reverse), rel=1e-5)


def test_what_does_not_count_may_be_nan_and_there_may_be_no_step():
    ends, cut = torch.tensor([False, True]), torch.tensor([False, False])
    after, ones = torch.tensor([1.0, torch.nan]), torch.ones(2)
    assert of.gae(ones, ones, after, ends, cut, 0.5, 1.0).tolist() == [0.5, 0.0]
    assert of.nstep(ones, after, ends, cut, 0.5, 2).tolist() == [1.5, 1.0]
    assert of.dqn_target(ones, after[:, None], ends, 0.5).tolist() == [1.5, 1.0]
    logp = torch.tensor([0.0, -torch.inf])
    assert of.ppo_clip(logp, logp, ones, mask=torch.tensor([True, False])) == -1.0
    none = torch.zeros(0)
    assert of.gae(none, none, none, none.bool(), none.bool(), 0.9, 0.9).shape == (0,)
    assert of.nstep(none, none, none.bool(), none.bool(), 0.9, 3).shape == (0,)
    alone = torch.tensor([1.0, 4.0, 2.0]), torch.tensor([0, 0, 1])
    assert of.rloo_advantages(*alone).tolist() == [-3.0, 3.0, 0.0]
    assert of.grpo_advantages(*alone)[2] == 0.0


@given(st.integers(0, 10_000), st.integers(1, 8))
def test_gae_of_tokens_is_that_of_the_tokens_in_the_mask_alone(seed: int, width: int):
    generator = torch.Generator().manual_seed(seed)
    rewards, values = torch.randn(2, 3, width, generator=generator).double()
    mask = torch.rand(3, width, generator=generator) < 0.6
    found = of.token_gae(rewards, values, mask, gamma=0.9, lam=0.8)
    assert not found[~mask].any()
    for row, there in enumerate(mask):
        rew, v = rewards[row][there].tolist(), values[row][there].tolist()
        for t in range(len(rew)):
            errors = [rew[k] + 0.9 * (v[k + 1] if k + 1 < len(v) else 0) - v[k] for k in range(t, len(rew))]
            expected = sum((0.9 * 0.8) ** k * error for k, error in enumerate(errors))
            assert found[row][there][t] == pytest.approx(expected)
