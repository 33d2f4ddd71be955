"""Formulas with the variants that code computes by mistake, for comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from inspect import signature
from typing import Any, Final

import torch
from torch import Tensor

from typedbatch.audit import references as of

Inputs = dict[str, Any]


@dataclass(frozen=True)
class Variant:
    """A formula beside the right one.

    Attributes:
        text: What the code does, after "it is the formula, but".
        change: Function of the arguments of the formula that returns those of the variant.
        after: Function of the result of the formula, and of the arguments, that returns that of the variant.
        is_right: Whether this is as right as the formula itself.
        choice: Setting by which the caller would choose this; it may be meant, unless the caller has given the setting.
    """

    text: str
    change: Callable[[Inputs], Inputs] = dict
    after: Callable[[Tensor, Inputs], Tensor] = lambda out, _: out
    is_right: bool = False
    choice: str = ""


@dataclass(frozen=True)
class Reference:
    """A formula, and how it is compared.

    Attributes:
        compute: The formula.
        inputs: Fields that it or a variant takes.
        output: Names of the field that has the result, where code returns a batch; empty for a loss.
        sums: Names of the field that has the sum of the result and ``values``, where code returns both.
        by: Arguments by which a loss is differentiated.
        settings: Its other arguments with their defaults; None for one that has to be given.
        variants: What code computes in its place, the likeliest first.
    """

    compute: Callable[..., Tensor]
    inputs: tuple[str, ...]
    output: tuple[str, ...] = ()
    sums: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    variants: tuple[Variant, ...] = ()

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """Names of the parameters of the formula that are inputs or settings."""
        known = {*self.inputs, *self.settings}
        return tuple(name for name in signature(self.compute).parameters if name in known)


def _with(**changes: Callable[[Inputs], Any]) -> Callable[[Inputs], Inputs]:
    return lambda inputs: {**inputs, **{name: change(inputs) for name, change in changes.items()}}


def _value(value: Any) -> Callable[[Inputs], Any]:
    return lambda _: value


def _field(name: str) -> Callable[[Inputs], Any]:
    return lambda inputs: inputs[name]


def _done(inputs: Inputs) -> Tensor:
    done: Tensor = inputs["terminated"] | inputs["truncated"]
    return done


def _exchanged(one: str, other: str) -> Callable[[Inputs], Inputs]:
    return _with(**{one: _field(other), other: _field(one)})


def _own_where_cut(inputs: Inputs) -> Tensor:
    return torch.where(inputs["truncated"], inputs["values"], inputs["next_values"])


def _later(inputs: Inputs) -> Tensor:
    """Return the values of the rows after, and after the last one that of its next observation."""
    return torch.cat([inputs["values"][1:], inputs["next_values"][-1:]])


def _zero(name: str) -> Callable[[Inputs], Tensor]:
    return lambda inputs: torch.zeros_like(inputs[name])


def _none(inputs: Inputs) -> Tensor:
    return torch.zeros_like(inputs["terminated"])


def _earlier(name: str) -> Callable[[Inputs], Any]:
    return lambda inputs: torch.cat([torch.zeros_like(inputs[name][:1]), inputs[name][:-1]])


def _normalized(out: Tensor, _: Inputs, *, unbiased: bool, epsilon: float) -> Tensor:
    normalized: Tensor = (out - out.mean()) / (out.std(unbiased=unbiased) + epsilon)
    return normalized


def _with_normalized(inputs: Inputs, *, unbiased: bool) -> Inputs:
    adv, mask = inputs["adv"], inputs["mask"]
    known = adv if mask is None else adv[mask]
    return {**inputs, "adv": (adv - known.mean()) / (known.std(unbiased=unbiased) + 1e-8)}


def _by_env(out: Tensor, _: Inputs) -> Tensor:
    return out.mT.reshape(out.shape) if out.ndim == 2 else out


def _by_step(out: Tensor, _: Inputs) -> Tensor:
    return out.reshape(out.shape[::-1]).mT if out.ndim == 2 else out


_EPSILONS: Final = (1e-8, 1e-5, 1e-3)
NORMALIZED: Final = tuple(
    Variant("", after=partial(_normalized, unbiased=unbiased, epsilon=epsilon), is_right=True)
    for unbiased in (True, False)
    for epsilon in _EPSILONS
)
"""Advantages that are normalized, which are as right as others."""
_ENDS: Final = (
    Variant("truncation is taken for termination", _with(terminated=_done)),
    Variant("termination is ignored: the value after a terminal step counts", _with(terminated=_none, truncated=_done)),
    Variant("episodes run into each other: sums are not cut where one is truncated", _with(truncated=_none)),
    Variant("no end of an episode is seen", _with(terminated=_none, truncated=_none)),
)
_SHIFTED: Final = Variant("rewards are those of the step before", _with(rew=_earlier("rew")))
_UNDISCOUNTED: Final = Variant("gamma is not used", _with(gamma=_value(1.0)))


def _once(out: Tensor, inputs: Inputs) -> Tensor:
    """Return n-step returns whose value after the last step is discounted by gamma, whatever the number of steps."""
    given = {name: inputs[name] for name in ("terminated", "truncated", "gamma", "n")}
    rewards = of.nstep(inputs["rew"], torch.zeros_like(inputs["rew"]), **given)
    one: Inputs = {**given, "gamma": 1.0}
    after: Tensor = inputs["gamma"] * of.nstep(torch.zeros_like(inputs["rew"]), inputs["next_values"], **one)
    return rewards + after


def _mean_of_all(out: Tensor, inputs: Inputs) -> Tensor:
    mask = inputs["mask"]
    mean: Tensor = out if mask is None else out * mask.sum() / mask.numel()
    return mean


_LOSSES: Final = (
    Variant("the mask is not used", _with(mask=_value(None))),
    Variant("the mean is over padding too", after=_mean_of_all, choice="reduction"),
    Variant("losses are added up", _with(reduction=_value("sum")), choice="reduction"),
    Variant(
        "the mean is one over sequences of their means over tokens",
        _with(reduction=_value("sequence")),
        choice="reduction",
    ),
    Variant("the mean is one over tokens, whatever their sequence", _with(reduction=_value("mean"))),
)
_NEGATED: Final = Variant("the sign is the other one", after=lambda out, _: -out)


def _larger(out: Tensor, inputs: Inputs) -> Tensor:
    ratio = (inputs["logp"] - inputs["old_logp"]).exp()
    near = of.near_one(ratio, inputs["clip"])
    losses = -torch.maximum(ratio * inputs["adv"], near * inputs["adv"])
    return of.reduced(losses, inputs["mask"], inputs["reduction"])


def _plain(out: Tensor, inputs: Inputs, *, is_near: bool) -> Tensor:
    ratio = (inputs["logp"] - inputs["old_logp"]).exp()
    ratio = of.near_one(ratio, inputs["clip"]) if is_near else ratio
    return of.reduced(-ratio * inputs["adv"], inputs["mask"], inputs["reduction"])


_CLIP: Final = (
    Variant("it takes the larger of the two objectives", after=_larger),
    Variant("nothing is clipped", after=partial(_plain, is_near=False)),
    Variant("the clipped objective counts alone, without the minimum", after=partial(_plain, is_near=True)),
    Variant("the ratio is turned around", lambda given: {**given, "logp": 2 * given["old_logp"] - given["logp"]}),
)


def _turned(inputs: Inputs) -> Inputs:
    return _exchanged("chosen", "rejected")(_exchanged("ref_chosen", "ref_rejected")(inputs))


_PAIRS: Final = (
    Variant("chosen and rejected are exchanged", _turned),
    Variant("the policy's log-probabilities of the two sides are exchanged", _exchanged("chosen", "rejected")),
    Variant("the references are exchanged", _exchanged("ref_chosen", "ref_rejected")),
    Variant("the references are not used", _with(ref_chosen=_zero("chosen"), ref_rejected=_zero("chosen"))),
    Variant("beta is not used", _with(beta=_value(1.0))),
    Variant("losses are added up", after=lambda out, given: out * len(given["chosen"]), choice="reduction"),
)  # fmt: skip
_PAIR: Final = ("chosen", "rejected", "ref_chosen", "ref_rejected")
_KL: Final = (
    *(Variant(f"it is {kind}", _with(kind=_value(kind))) for kind in ("k1", "k2", "k3")),
    Variant("it is k1 of the reference from the policy", _with(
        logp=_field("ref_logp"), ref_logp=_field("logp"), kind=_value("k1"),
    )),
    Variant("it is k3 of the reference from the policy", _exchanged("logp", "ref_logp")),
)  # fmt: skip


def _centred(out: Tensor, inputs: Inputs) -> Tensor:
    return out * torch.stack([1 - 1 / (inputs["uid"] == one).sum() for one in inputs["uid"]])


def _mean_q(inputs: Inputs) -> Tensor:
    mean: Tensor = inputs["next_q"].mean(-1, keepdim=True)
    return mean


def _rloo(out: Tensor, inputs: Inputs) -> Tensor:
    return of.rloo_advantages(inputs["rewards"], inputs["uid"])


def _summed(out: Tensor, inputs: Inputs) -> Tensor:
    mask = inputs["mask"]
    summed: Tensor = out * (inputs["values"].numel() if mask is None else mask.sum())
    return summed


def _whitened(out: Tensor, inputs: Inputs, *, unbiased: bool) -> Tensor:
    known = out[inputs["mask"]]
    whitened: Tensor = (out - known.mean()) / (known.std(unbiased=unbiased) + 1e-8) * inputs["mask"]
    return whitened


def _everywhere(out: Tensor, inputs: Inputs) -> Tensor:
    everywhere = torch.ones_like(inputs["mask"])
    given = {name: inputs[name] for name in ("rewards", "values", "gamma", "lam")}
    advantages: Tensor = of.token_gae(**given, mask=everywhere) * inputs["mask"]
    return advantages


def _lost(out: Tensor, inputs: Inputs) -> Tensor:
    """Return a projection in which floor and ceiling of a return on an atom are one, and neither weighs anything."""
    support = inputs["support"]
    moved = inputs["rew"][:, None] + inputs["gamma"] * support * ~inputs["terminated"][:, None]
    at = (moved.clamp(support[0], support[-1]) - support[0]) / (support[1] - support[0])
    probs = torch.where((at - at.round()).abs() < 1e-6, 0.0, inputs["probs"])
    given = {name: inputs[name] for name in ("rew", "terminated", "gamma", "support")}
    return of.c51_projection(probs, **given)


def _smaller(out: Tensor, inputs: Inputs) -> Tensor:
    values, old, returns = inputs["values"], inputs["old_values"], inputs["returns"]
    near = old + (values - old).clamp(-inputs["clip"], inputs["clip"])
    return of.reduced(0.5 * torch.minimum((values - returns) ** 2, (near - returns) ** 2), inputs["mask"])


_DOUBLED: Final = Variant("without the factor 1/2", after=lambda out, _: 2 * out, is_right=True)
REFERENCES: Final[dict[str, Reference]] = {
    "gae": Reference(
        of.gae, ("rew", "values", "next_values", "terminated", "truncated"), ("adv", "advantages"), ("returns",),
        settings={"gamma": None, "lam": None},
        variants=(
            *NORMALIZED, *_ENDS, _SHIFTED,
            Variant("its rows go step by step, and those of other fields by environment", after=_by_step),
            Variant("its rows go by environment, and those of other fields step by step", after=_by_env),
            Variant("lam is not used", _with(lam=_value(1.0))), _UNDISCOUNTED,
            Variant("the value after a step is that of the step itself", _with(next_values=_field("values"))),
            Variant("the value after a truncated step is that of the step itself", _with(next_values=_own_where_cut)),
            Variant(
                "sums go on over truncated steps, with the value of the row after them",
                _with(next_values=_later, truncated=_none),
            ),
            Variant("it is the return: values are not taken off", after=lambda out, given: out + given["values"]),
            _NEGATED,
        ),
    ),
    "nstep": Reference(
        of.nstep, ("rew", "next_values", "terminated", "truncated"), ("returns",),
        settings={"gamma": None, "n": None},
        variants=(
            Variant("the value is discounted by gamma once, not by gamma to the power n", after=_once),
            *_ENDS, _SHIFTED, _UNDISCOUNTED,
            Variant("one step fewer is summed", _with(n=lambda given: max(1, given["n"] - 1))),
            Variant("one step more is summed", _with(n=lambda given: given["n"] + 1)),
        ),
    ),
    "vtrace": Reference(
        of.vtrace, ("rew", "values", "next_values", "terminated", "truncated", "ratio"), ("returns", "vs", "targets"),
        settings={"gamma": None, "lam": 1.0, "largest_rho": 1.0, "largest_c": 1.0},
        variants=(
            *_ENDS, _SHIFTED, _UNDISCOUNTED,
            Variant("ratios are not clipped", _with(largest_rho=_value(torch.inf), largest_c=_value(torch.inf))),
            Variant("no ratio is used", _with(ratio=lambda given: torch.ones_like(given["ratio"]))),
            Variant("ratios are turned around", _with(ratio=lambda given: 1 / given["ratio"])),
        ),
    ),
    "dqn": Reference(
        of.dqn_target, ("rew", "next_q", "terminated", "truncated"), ("returns", "targets"), settings={"gamma": None},
        variants=(
            _ENDS[0], Variant("termination is ignored", _with(terminated=_none)), _UNDISCOUNTED,
            Variant("the mean of the values is taken, not their maximum", _with(next_q=_mean_q)),
        ),
    ),
    "double_dqn": Reference(
        of.double_dqn_target, ("rew", "next_q", "next_online", "terminated", "truncated"), ("returns", "targets"),
        settings={"gamma": None},
        variants=(
            Variant("the slow network chooses actions, too", _with(next_online=_field("next_q"))),
            Variant("the networks are exchanged", _exchanged("next_q", "next_online")),
            Variant("the trained network values actions, too", _with(next_q=_field("next_online"))),
            _ENDS[0], Variant("termination is ignored", _with(terminated=_none)), _UNDISCOUNTED,
        ),
    ),
    "sac": Reference(
        of.sac_target, ("rew", "next_q1", "next_q2", "next_logp", "terminated", "truncated"), ("returns", "targets"),
        settings={"gamma": None, "alpha": None},
        variants=(
            Variant("the entropy is left out", _with(alpha=_value(0.0))),
            Variant("the entropy has the other sign", _with(alpha=lambda given: -given["alpha"])),
            Variant("the first critic is used alone", _with(next_q2=_field("next_q1"))),
            Variant("the second critic is used alone", _with(next_q1=_field("next_q2"))),
            _ENDS[0], Variant("termination is ignored", _with(terminated=_none)), _UNDISCOUNTED,
        ),
    ),
    "ppo_clip": Reference(
        of.ppo_clip, ("logp", "old_logp", "adv", "mask"), by=("logp",), settings={"clip": 0.2, "reduction": "mean"},
        variants=(
            *(Variant("", partial(_with_normalized, unbiased=unbiased), is_right=True) for unbiased in (True, False)),
            _NEGATED, *_CLIP, *_LOSSES,
        ),
    ),
    "value": Reference(
        of.value_loss, ("values", "returns", "mask"), by=("values",),
        variants=(
            _DOUBLED, _NEGATED, *_LOSSES[:2],
            Variant("losses are added up", after=_summed, choice="reduction"),
        ),
    ),
    "value_clip": Reference(
        of.clipped_value_loss, ("values", "old_values", "returns", "mask"), by=("values",), settings={"clip": None},
        variants=(
            _DOUBLED, Variant("it takes the smaller of the two losses", after=_smaller),
            Variant("it takes the smaller of the two losses", after=lambda out, given: 2 * _smaller(out, given)),
            Variant("nothing is clipped", _with(clip=_value(torch.inf))), _NEGATED, *_LOSSES[:2],
        ),
    ),
    "token_gae": Reference(
        of.token_gae, ("rewards", "values", "mask"), ("advantages", "adv"), settings={"gamma": 1.0, "lam": 1.0},
        variants=(
            *(Variant("", after=partial(_whitened, unbiased=unbiased), is_right=True) for unbiased in (True, False)),
            Variant("sums run through padding, whose values count", after=_everywhere),
            Variant("lam is not used", _with(lam=_value(1.0))), _UNDISCOUNTED,
            Variant("it is the return: values are not taken off", after=lambda out, given: out + given["values"]),
            _NEGATED,
        ),
    ),
    "c51": Reference(
        of.c51_projection, ("probs", "rew", "terminated", "support"), ("probs", "target_probs"),
        settings={"gamma": None},
        variants=(
            Variant("the probability of a return that falls on an atom is lost", after=_lost),
            Variant("termination is ignored", _with(terminated=_none)), _UNDISCOUNTED,
        ),
    ),
    "kto": Reference(
        of.kto, ("logp", "ref_logp", "desirable", "kl"), by=("logp",), settings={"beta": 0.1, "weights": (1.0, 1.0)},
        variants=(
            Variant("desirable and undesirable are exchanged", _with(desirable=lambda given: ~given["desirable"])),
            Variant("the divergence is not taken off", _with(kl=_zero("kl"))),
            Variant("the reference is not used", _with(ref_logp=_zero("ref_logp"))),
            Variant("beta is not used", _with(beta=_value(1.0))), _NEGATED,
        ),
    ),
    "dpo": Reference(of.dpo, _PAIR, by=_PAIR[:2], settings={"beta": 0.1}, variants=(*_PAIRS, _NEGATED)),
    "ipo": Reference(of.ipo, _PAIR, by=_PAIR[:2], settings={"beta": 0.1}, variants=_PAIRS),
    "grpo": Reference(
        of.grpo_advantages, ("rewards", "uid"), ("advantages", "adv"), settings={"epsilon": 1e-4, "correction": 1},
        variants=(
            *(Variant("", _with(epsilon=_value(epsilon)), is_right=True) for epsilon in (1e-8, 1e-6, 1e-5)),
            Variant("", _with(correction=_value(0)), is_right=True),
            Variant("", _with(correction=_value(0), epsilon=_value(1e-8)), is_right=True),
            Variant("the baseline is the mean of all rows", _with(uid=lambda given: torch.zeros_like(given["uid"]))),
            Variant(
                "it is not divided by the standard deviation",
                after=lambda out, given: _centred(_rloo(out, given), given),
                choice="epsilon",
            ),
            Variant("the baseline leaves out the row itself", after=_rloo),
            _NEGATED,
        ),
    ),
    "rloo": Reference(
        of.rloo_advantages, ("rewards", "uid"), ("advantages", "adv"),
        variants=(
            Variant("the baseline includes the row itself", after=_centred),
            Variant("the baseline is the mean of all others", _with(uid=lambda given: torch.zeros_like(given["uid"]))),
            _NEGATED,
        ),
    ),
    "kl": Reference(of.kl_estimate, ("logp", "ref_logp"), ("kl",), settings={"kind": None}, variants=_KL),
    "distillation": Reference(
        of.distillation_kl, ("student", "teacher", "mask"), by=("student",), settings={"reverse": False},
        variants=(
            Variant("it is that of the student from the teacher", _with(reverse=_value(True))),
            Variant("it is that of the teacher from the student", _with(reverse=_value(False))), *_LOSSES[:2],
        ),
    ),
}  # fmt: skip
"""Formulas by the names that audits take."""
