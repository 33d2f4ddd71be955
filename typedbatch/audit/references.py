"""Formulas of reinforcement learning and post-training, each from its paper, to compare other code with.

They are written to be read, and not fast. Values per step are float tensors of shape ``(T,)`` or ``(T, B)``, steps of
time first; flags are bool of the same shape; values per token are ``(N, R)`` with a bool mask. Results are new tensors
in the dtype of the arguments, and keep gradients. Nothing that is given is changed. ``next_values`` are those of the
observation after each step, before a reset. After ``terminated`` nothing follows; an episode that is ``truncated`` goes
on, but not in the rows after it.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

Reduction = Literal["mean", "sum", "sequence"]
"""Mean over all numbers in the mask, their sum, or the mean over sequences of their means over tokens."""


def _unless(ended: Tensor, values: Tensor) -> Tensor:
    """Return values, and 0 where nothing follows, whatever the value is there."""
    return torch.where(ended, 0.0, values)


def _summed(numbers: Tensor, factors: Tensor) -> Tensor:
    """Return at each step the number, and the sum at the step after it times a factor."""
    out, after = numbers.clone(), torch.zeros_like(numbers[:1])[0] if len(numbers) else numbers
    for t in reversed(range(len(numbers))):
        after = numbers[t] + factors[t] * after
        out[t] = after
    return out


def gae(
    rew: Tensor, values: Tensor, next_values: Tensor, terminated: Tensor, truncated: Tensor, gamma: float, lam: float
) -> Tensor:
    """Return generalized advantages (Schulman et al., 2016, arXiv:1506.02438, equation 16).

    Their sum with ``values`` is the return that a critic learns, TD(lambda).
    """
    delta = rew + gamma * _unless(terminated, next_values) - values
    return _summed(delta, gamma * lam * torch.where(terminated | truncated, 0.0, torch.ones_like(delta)))


def token_gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float = 1.0, lam: float = 1.0) -> Tensor:
    """Return generalized advantages of tokens, ``(N, R)``; those outside of the mask are skipped, and get 0.

    The value after a token is that of the next one in the mask, and 0 after the last (arXiv:1506.02438).
    """
    out = torch.zeros_like(rewards)
    last, after = torch.zeros_like(rewards[:, 0]), torch.zeros_like(rewards[:, 0])
    for t in reversed(range(rewards.shape[1])):
        adv = rewards[:, t] + gamma * after - values[:, t] + gamma * lam * last
        out[:, t] = _unless(~mask[:, t], adv)
        last, after = torch.where(mask[:, t], adv, last), torch.where(mask[:, t], values[:, t], after)
    return out


def nstep(rew: Tensor, next_values: Tensor, terminated: Tensor, truncated: Tensor, gamma: float, n: int) -> Tensor:
    """Return n-step returns: rewards of up to ``n`` steps, and the value after them (Sutton and Barto, 2018, 7.1).

    Fewer steps are summed where an episode or the rows end, and the value after the last of them counts, unless the
    episode has terminated.
    """
    if not len(rew):
        return rew.clone()
    returns = []
    for t in range(len(rew)):
        total, discount, open_ = torch.zeros_like(rew[0]), torch.ones_like(rew[0]), torch.ones_like(terminated[0])
        for k in range(t, min(t + n, len(rew))):
            total = total + open_ * discount * rew[k]
            is_last = open_ & (terminated[k] | truncated[k] | torch.full_like(open_, k == min(t + n, len(rew)) - 1))
            total = total + gamma * discount * _unless(terminated[k] | ~is_last, next_values[k])
            open_, discount = open_ & ~is_last, discount * gamma
        returns.append(total)
    return torch.stack(returns)


def vtrace(
    rew: Tensor,
    values: Tensor,
    next_values: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    ratio: Tensor,
    gamma: float,
    lam: float = 1.0,
    largest_rho: float = 1.0,
    largest_c: float = 1.0,
) -> Tensor:
    """Return the targets of V-trace for values (Espeholt et al., 2018, arXiv:1802.01561, equation 1 and remark 1).

    ``ratio`` is the probability of the action under the trained policy, over that under the policy that sampled.
    """
    delta = ratio.clamp(max=largest_rho) * (rew + gamma * _unless(terminated, next_values) - values)
    factors = gamma * lam * torch.where(terminated | truncated, 0.0, ratio.clamp(max=largest_c))
    return values + _summed(delta, factors)


def dqn_target(rew: Tensor, next_q: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    """Return ``rew + gamma * max q`` by the slow network's ``next_q``, ``(N, A)`` (Mnih et al., 2015)."""
    return rew + gamma * _unless(terminated, next_q.max(-1).values)


def double_dqn_target(rew: Tensor, next_q: Tensor, next_online: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    """Return targets whose actions are chosen by the trained network's ``next_online``, and valued by ``next_q``.

    Van Hasselt et al., 2016, arXiv:1509.06461, equation 4. Both are ``(N, A)``.
    """
    return rew + gamma * _unless(terminated, next_q.gather(-1, next_online.argmax(-1, keepdim=True)).squeeze(-1))


def sac_target(
    rew: Tensor, next_q1: Tensor, next_q2: Tensor, next_logp: Tensor, terminated: Tensor, gamma: float, alpha: float
) -> Tensor:
    """Return targets of soft actor-critic, of two slow critics at a sampled action (arXiv:1812.05905, equation 3)."""
    return rew + gamma * _unless(terminated, torch.minimum(next_q1, next_q2) - alpha * next_logp)


def sac_temperature_loss(log_alpha: Tensor, logp: Tensor, target_entropy: float) -> Tensor:
    """Return the loss of the temperature (arXiv:1812.05905, equation 18); ``logp`` has no gradient."""
    return -(log_alpha.exp() * (logp.detach() + target_entropy)).mean()


def c51_projection(probs: Tensor, rew: Tensor, terminated: Tensor, gamma: float, support: Tensor) -> Tensor:
    """Return the distribution of ``rew + gamma * z`` on a support (Bellemare et al., 2017, arXiv:1707.06887).

    Args:
        probs: Probabilities of the returns after each step, ``(N, atoms)``.
        rew: Rewards, ``(N,)``.
        terminated: Whether nothing follows, ``(N,)``.
        gamma: Discount.
        support: Returns of the atoms, ``(atoms,)``, ascending.
    """
    low, high, width = support[0], support[-1], support[1] - support[0]
    moved = (rew[:, None] + gamma * support * ~terminated[:, None]).clamp(low, high)
    nearness = 1 - ((moved[:, None, :] - support[None, :, None]).abs() / width).clamp(max=1)
    return (nearness * probs[:, None, :]).sum(-1)


def reduced(losses: Tensor, mask: Tensor | None, reduction: Reduction = "mean") -> Tensor:
    """Return one number for losses; without a mask, all of them count."""
    mask = torch.ones_like(losses, dtype=torch.bool) if mask is None else mask
    if reduction == "sequence":
        return (_unless(~mask, losses).sum(-1) / mask.sum(-1).clamp(min=1))[mask.any(-1)].mean()
    return _unless(~mask, losses).sum() / (mask.sum() if reduction == "mean" else 1)


def near_one(ratio: Tensor, clip: float | tuple[float, float]) -> Tensor:
    """Return ratios that are clipped to ``1 - clip`` and ``1 + clip``."""
    below, above = clip if isinstance(clip, tuple) else (clip, clip)
    return ratio.clamp(1 - below, 1 + above)


def ppo_clip(
    logp: Tensor, old_logp: Tensor, adv: Tensor, clip: float | tuple[float, float] = 0.2, mask: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:  # fmt: skip
    """Return the clipped loss of PPO (Schulman et al., 2017, arXiv:1707.06347, equation 7), to be made small.

    ``clip`` is one number, or two for what is below and above 1, as in DAPO (arXiv:2503.14476).
    """
    ratio = (logp - old_logp).exp()
    return reduced(-torch.minimum(ratio * adv, near_one(ratio, clip) * adv), mask, reduction)


def value_loss(values: Tensor, returns: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return half the mean square of the errors of values."""
    return reduced(0.5 * (values - returns) ** 2, mask)


def clipped_value_loss(
    values: Tensor, old_values: Tensor, returns: Tensor, clip: float, mask: Tensor | None = None
) -> Tensor:
    """Return the larger of the losses of values and of values near the old ones (as in OpenAI's baselines, ppo2)."""
    near = old_values + (values - old_values).clamp(-clip, clip)
    return reduced(0.5 * torch.maximum((values - returns) ** 2, (near - returns) ** 2), mask)


def dpo(chosen: Tensor, rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor, beta: float = 0.1) -> Tensor:
    """Return the loss of DPO (Rafailov et al., 2023, arXiv:2305.18290, equation 7) for pairs, ``(N,)``."""
    return -logsigmoid(beta * ((chosen - ref_chosen) - (rejected - ref_rejected))).mean()


def ipo(chosen: Tensor, rejected: Tensor, ref_chosen: Tensor, ref_rejected: Tensor, beta: float = 0.1) -> Tensor:
    """Return the loss of IPO (Azar et al., 2023, arXiv:2310.12036, equation 17), where ``beta`` is its tau."""
    return (((chosen - ref_chosen) - (rejected - ref_rejected) - 1 / (2 * beta)) ** 2).mean()


def kto(
    logp: Tensor,
    ref_logp: Tensor,
    desirable: Tensor,
    kl: Tensor,
    beta: float = 0.1,
    weights: tuple[float, float] = (1.0, 1.0),
) -> Tensor:
    """Return the loss of KTO (Ethayarajh et al., 2024, arXiv:2402.01306, equation 8) for responses, ``(N,)``.

    ``kl`` is the estimate of the divergence from the reference, which has no gradient and is not below 0; ``weights``
    are those of desirable and undesirable responses.
    """
    sign = torch.where(desirable, 1.0, -1.0)
    value = torch.sigmoid(beta * sign * (logp - ref_logp - kl.detach().clamp(min=0)))
    return torch.where(desirable, weights[0] * (1 - value), weights[1] * (1 - value)).mean()


def grpo_advantages(rewards: Tensor, uid: Tensor, epsilon: float = 1e-4, correction: int = 1) -> Tensor:
    """Return rewards less the mean of their group, over its deviation (Shao et al., 2024, arXiv:2402.03300).

    ``correction`` is that of ``torch.std``: 1 for a sample, 0 for a population. A response that is alone in its group
    has 0.
    """
    out = torch.zeros_like(rewards)
    for one in torch.unique(uid):
        group = rewards[uid == one]
        if len(group) > 1:  # A response alone has nothing to be compared with.
            out[uid == one] = (group - group.mean()) / (group.std(correction=correction) + epsilon)
    return out


def rloo_advantages(rewards: Tensor, uid: Tensor) -> Tensor:
    """Return rewards less the mean of the others in their group (Ahmadian et al., 2024, arXiv:2402.14740).

    A response that is alone in its group has 0.
    """
    out = torch.zeros_like(rewards)
    for one in torch.unique(uid):
        group = rewards[uid == one]
        if len(group) > 1:
            out[uid == one] = group - (group.sum() - group) / (len(group) - 1)
    return out


def kl_estimate(logp: Tensor, ref_logp: Tensor, kind: Literal["k1", "k2", "k3"]) -> Tensor:
    """Return estimates of the divergence of the policy from the reference, per token.

    Schulman, 2020, "Approximating KL Divergence". The tokens are samples of the policy. ``k1`` may be negative, ``k3``
    never is, and both have the right mean.
    """
    apart = ref_logp - logp
    return {"k1": -apart, "k2": 0.5 * apart**2, "k3": apart.exp() - 1 - apart}[kind]


def distillation_kl(student: Tensor, teacher: Tensor, mask: Tensor, *, reverse: bool = False) -> Tensor:
    """Return the mean over tokens of the divergence of the teacher from the student, of logits ``(N, R, vocabulary)``.

    Hinton et al., 2015, arXiv:1503.02531; with ``reverse``, of the student from the teacher (Gu et al., 2023,
    arXiv:2306.08543).
    """
    one, other = student.log_softmax(-1), teacher.log_softmax(-1)
    apart = (one.exp() * (one - other)) if reverse else (other.exp() * (other - one))
    return reduced(apart.sum(-1), mask)
