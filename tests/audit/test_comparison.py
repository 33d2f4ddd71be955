"""Comparisons with formulas: right code in any style has no finding, and a mistake is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, smooth_l1_loss

from typedbatch import Batch, objects
from typedbatch.audit import Report, audit, audit_stage
from typedbatch.audit.update_comparison import UPDATES
from typedbatch.audit.variants import REFERENCES
from typedbatch.errors import SettingError
from typedbatch.rows import groups

GAE = {"gamma": 0.9, "lam": 0.8}


def rollout(length: int = 24, *envs: int) -> Batch:
    torch.manual_seed(0)
    flags = {name: torch.rand(length, *envs) < 0.1 for name in ("terminated", "truncated")}
    return Batch(**{name: torch.randn(length, *envs) for name in ("rew", "v_s", "v_s_")}, **flags)


def told(report: Report) -> str:
    """Return the variant that a finding names, and an empty text if there is neither a finding nor a note."""
    assert len(report.findings) + len(report.notes) <= 1, report
    return next((one.text.partition(", but ")[2] or one.text for one in [*report.findings, *report.notes]), "")


def gae(batch: Any, end: Any = None, cut: Any = None, lam: float = 0.8, after: str = "v_s_") -> Tensor:
    end, cut = batch.terminated if end is None else end, batch.terminated | batch.truncated if cut is None else cut
    out, last = torch.zeros_like(batch.rew), torch.zeros_like(batch.rew[0])
    for t in reversed(range(len(batch.rew))):
        delta = batch.rew[t] + 0.9 * batch[after][t] * ~end[t] - batch.v_s[t]
        last = out[t] = delta + 0.9 * lam * last * ~cut[t]
    return out


def cut_to_itself(batch: Any) -> Batch:
    """Return a batch in which a truncated step is followed by its own value, as by rewards with gamma times it."""
    return Batch(batch, v_s_=torch.where(batch.truncated, batch.v_s, batch.v_s_))


def over_resets(batch: Any) -> Batch:
    """Return a batch in which each step but the last is followed by the value of the next row."""
    return Batch(batch, v_s_=torch.cat([batch.v_s[1:], batch.v_s_[-1:]]))


def by_matrix(batch: Any) -> Batch:
    """Return the same advantages, by a product with a matrix of discounts, in numpy."""
    rows = batch.to_numpy()
    ends = np.concatenate([[0], np.cumsum(rows.terminated | rows.truncated)[:-1]])
    apart = np.arange(len(ends)) - np.arange(len(ends))[:, None]
    weights = np.where((apart >= 0) & (ends == ends[:, None]), (0.9 * 0.8) ** np.maximum(apart, 0), 0)
    adv = weights @ (rows.rew + 0.9 * rows.v_s_ * ~rows.terminated - rows.v_s)
    return Batch(adv=adv, returns=adv + rows.v_s)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (gae, ""),
        (by_matrix, ""),
        (lambda batch: (gae(batch) - gae(batch).mean()) / (gae(batch).std() + 1e-8), ""),
        (lambda batch: gae(batch, end=batch.terminated | batch.truncated), "truncation is taken for termination"),
        (lambda batch: gae(batch, end=batch.terminated & False), "termination is ignored: the value after a terminal"),
        (lambda batch: gae(batch, cut=batch.terminated), "episodes run into each other"),
        (lambda batch: gae(batch, lam=1.0), "lam is not used"),
        (lambda batch: gae(batch, after="v_s"), "the value after a step is that of the step itself"),
        (lambda batch: gae(batch) + batch.v_s, "it is the return: values are not taken off"),
        (lambda batch: gae(cut_to_itself(batch)), "the value after a truncated step is that of the step itself"),
        (
            lambda batch: gae(over_resets(batch), cut=batch.terminated),
            "sums go on over truncated steps, with the value",
        ),
        (lambda batch: 1.5 * gae(batch), "this is not gae, nor a variant of it that is known: at row "),
        (
            lambda batch: gae(batch)[:-1],
            "this is not gae, nor a variant of it that is known: its shape is (23,), expected",
        ),
    ],
)
def test_advantages(function: Callable[[Any], Any], says: str):
    report = audit_stage(function, rollout(), like="gae", settings=GAE)
    assert told(report)[: len(says) or None] == says
    assert not says or bool(report.findings) == (not says.startswith("this is not"))


def test_advantages_of_several_environments():
    assert not told(audit_stage(gae, rollout(12, 3), like="gae", settings=GAE))
    assert told(audit_stage(lambda batch: gae(batch, lam=1.0), rollout(12, 3), like="gae", settings=GAE))


def by_next_row(batch: Any) -> tuple[Tensor, Tensor]:
    """Return the same advantages with the value of the next row in place of that of the next observation."""
    ended = batch.terminated | batch.truncated
    after = torch.cat([torch.where(ended[:-1], batch.v_s_[:-1], batch.v_s[1:]), batch.v_s_[-1:]])
    adv = gae(Batch(rew=batch.rew, v_s=batch.v_s, v_s_=after, terminated=batch.terminated, truncated=batch.truncated))
    return adv, adv + batch.v_s


def test_other_values_are_coherent_and_of_the_same_dtype():
    batch = rollout()
    ended = (batch.terminated | batch.truncated)[:-1]
    batch.v_s_[:-1] = torch.where(ended, batch.v_s_[:-1], batch.v_s[1:])
    assert not told(audit_stage(by_next_row, batch, like="gae", settings=GAE))
    batch.done = batch.terminated | batch.truncated
    assert not told(audit_stage(lambda given: gae(given, cut=given.done), batch, like="gae", settings=GAE))
    for numbers in (batch.to_numpy(), batch):
        numbers["terminated"], numbers["truncated"] = (1.0 * numbers[name] for name in ("terminated", "truncated"))
        wrong = audit_stage(
            lambda given: by_float_flags(given, 1 - given.terminated), numbers, like="gae", settings=GAE
        )
        assert told(wrong).startswith("episodes run into each other")


def by_float_flags(batch: Any, goes_on: Any) -> Any:
    out, last = [], 0.0
    for t in reversed(range(len(batch.rew))):
        delta = batch.rew[t] + 0.9 * batch.v_s_[t] * goes_on[t] - batch.v_s[t]
        out.append(last := delta + 0.9 * 0.8 * last * goes_on[t])
    return {"adv": np.stack(out[::-1]) if isinstance(batch.rew, np.ndarray) else torch.stack(out[::-1])}


def nstep(batch: Any, *, once: bool = False, n: int = 3) -> Tensor:
    out = []
    for t in range(len(batch.rew)):
        total, k = torch.zeros(()), t
        while not (batch.terminated[k] or batch.truncated[k] or k - t == n - 1 or k == len(batch.rew) - 1):
            k += 1
        for i in range(t, k + 1):
            total = total + 0.9 ** (i - t) * batch.rew[i]
        out.append(total + (0.9 if once else 0.9 ** (k - t + 1)) * batch.v_s_[k] * ~batch.terminated[k])
    return torch.stack(out)


def test_returns_of_n_steps():
    settings = {"gamma": 0.9, "n": 3}
    assert not told(audit_stage(nstep, rollout(), like="nstep", settings=settings))
    once = audit_stage(lambda batch: nstep(batch, once=True), rollout(), like="nstep", settings=settings)
    assert told(once) == "the value is discounted by gamma once, not by gamma to the power n"
    fewer = audit_stage(lambda batch: nstep(batch, n=2), rollout(), like="nstep", settings=settings)
    assert told(fewer) == "one step fewer is summed"


def clipped(batch: Any, choose: Any = torch.minimum, how: str = "tokens") -> Tensor:
    ratio, mask = (batch.logp - batch.old_logp).exp(), batch.loss_mask
    losses = -choose(ratio * batch.advantages, ratio.clamp(0.8, 1.2) * batch.advantages)
    if how == "sequences":
        return ((losses * mask).sum(1) / mask.sum(1).clamp(min=1))[mask.any(1)].mean()
    return losses.mean() if how == "all" else (losses * mask).sum() / (mask.numel() if how == "padding" else mask.sum())


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (clipped, ""),
        (lambda batch: -clipped(batch), "the sign is the other one"),
        (lambda batch: clipped(batch, torch.maximum), "it takes the larger of the two objectives"),
        (lambda batch: clipped(batch, lambda one, other: one), "nothing is clipped"),
        (lambda batch: clipped(batch, lambda one, other: other), "the clipped objective counts alone"),
        (lambda batch: clipped(batch, how="padding"), "the mean is over padding too"),
        (lambda batch: clipped(batch, how="all"), "the mask is not used"),
        (lambda batch: clipped(batch, how="sequences"), "the mean is one over sequences of their means"),
    ],
)
def test_the_loss_of_ppo(function: Callable[[Any], Tensor], says: str):
    torch.manual_seed(0)
    logp = {name: -torch.rand(6, 5) for name in ("logp", "old_logp")}
    batch = Batch(**logp, advantages=torch.randn(6, 5), loss_mask=torch.rand(6, 5) < 0.7)
    before = batch.copy()
    report = audit_stage(function, batch, like="ppo_clip")
    assert told(report)[: len(says) or None] == says
    assert batch == before and not batch.logp.requires_grad  # noqa: PT018


def test_other_losses_and_estimates():
    torch.manual_seed(0)
    names = ("chosen_logp", "rejected_logp", "ref_chosen_logp", "ref_rejected_logp")
    pairs = Batch(**{name: -5 * torch.rand(8) for name in names})

    def dpo(batch: Any, sign: float = 1.0, beta: float = 0.1) -> Tensor:
        policy, reference = batch.chosen_logp - batch.rejected_logp, batch.ref_chosen_logp - batch.ref_rejected_logp
        return -logsigmoid(beta * (policy - sign * reference)).mean()

    assert not told(audit_stage(dpo, pairs, like="dpo"))
    assert told(audit_stage(lambda batch: dpo(batch, -1.0), pairs, like="dpo")) == "the references are exchanged"
    assert told(audit_stage(lambda batch: dpo(batch, 0.0), pairs, like="dpo")) == "the references are not used"
    assert told(audit_stage(lambda batch: dpo(batch, beta=1.0), pairs, like="dpo")) == "beta is not used"
    scored = Batch(rewards=torch.randn(12), uid=np.array([*"abc"] * 4, object))

    def grpo(batch: Any) -> Tensor:
        by = groups(batch, "uid")
        return (batch.rewards - by.mean(batch.rewards)) / (by.std(batch.rewards) + 1e-4)

    assert not told(audit_stage(grpo, scored, like="grpo"))
    plain = audit_stage(lambda batch: batch.rewards - groups(batch, "uid").mean(batch.rewards), scored, like="grpo")
    assert (told(plain), plain.findings) == ("it is not divided by the standard deviation", [])
    centred = audit_stage(lambda batch: batch.rewards - groups(batch, "uid").mean(batch.rewards), scored, like="rloo")
    assert told(centred) == "the baseline includes the row itself"
    logp = Batch(logp=-torch.rand(9), ref_logp=-torch.rand(9))
    third = audit_stage(lambda batch: batch.logp - batch.ref_logp, logp, like="kl", settings={"kind": "k3"})
    assert told(third) == "it is k1"


def test_a_loss_is_one_number_and_its_gradient_counts():
    batch = Batch(logp=-torch.rand(8), old_logp=-torch.rand(8), adv=torch.randn(8))

    def loss(given: Any, ratio: Any = lambda apart: apart.exp()) -> Tensor:
        one = ratio(given.logp - given.old_logp)
        return -torch.minimum(one * given.adv, one.clamp(0.8, 1.2) * given.adv).mean()

    assert not told(audit_stage(lambda given: (loss(given), {"kl": 0.0}), batch, like="ppo_clip"))
    detached = audit_stage(lambda given: loss(given, lambda apart: apart.exp().detach()), batch, like="ppo_clip")
    assert told(detached).endswith("its value is right on this batch, and its gradient is not")
    for wrong, got in ((lambda given: loss(given).item(), "float"), (lambda given: given.logp, r"torch f32\[8\]")):
        with pytest.raises(SettingError, match=f"ppo_clip is a loss: .* a tensor of one number, got {got}"):
            audit_stage(wrong, batch, like="ppo_clip")
    summed = audit_stage(lambda given: 8 * loss(given), batch, like="ppo_clip")
    assert (told(summed), summed.findings) == ("losses are added up", [])
    mean = {"reduction": "mean"}
    assert audit_stage(lambda given: 8 * loss(given), batch, like="ppo_clip", settings=mean).findings


def test_what_a_formula_needs_is_asked_for():
    for like, settings, says in (
        ("gea", {}, "like takes one of gae, "),
        ("gae", {"gamma": 0.9}, "gae needs lam, as in settings={'lam': ...}"),
        ("gae", {**GAE, "lamda": 1}, "gae has the settings gamma, lam, got 'lamda'"),
        ("dqn", {"gamma": 0.9}, "dqn takes next_q from a field next_q, which the batch lacks"),
    ):
        with pytest.raises(SettingError, match="^" + says.replace("{", r"\{").replace("(", r"\(")):
            audit_stage(gae, rollout(), like=like, settings=settings)
    with pytest.raises(SettingError, match="the result has no field adv or advantages to compare"):
        audit_stage(lambda batch: Batch(other=gae(batch)), rollout(), like="gae", settings=GAE)
    with pytest.raises(SettingError, match="an update is compared with ppo_clip, dqn, double_dqn, and a stage"):
        audit(lambda batch: None, rollout(), like="gae", settings=GAE)
    assert set(UPDATES) < set(REFERENCES)


def test_a_function_that_refuses_other_values_is_compared_on_the_batch_itself():
    batch = rollout()
    first = float(batch.rew[0])

    def strict(given: Any) -> Tensor:
        if float(given.rew[0]) != first:
            raise ValueError("not mine")
        return 2 * gae(given)

    assert told(audit_stage(strict, batch, like="gae", settings=GAE)).endswith("it raised ValueError: not mine")
    note = told(audit_stage(lambda given: strict(given) / 2, batch, like="gae", settings=GAE))
    assert note == "on the batch itself this is gae; on other values it raised ValueError: not mine"


class Ppo:
    def __init__(self, choose: Any = torch.minimum, *, normalizes: bool = False, is_column: bool = False) -> None:
        torch.manual_seed(0)
        self.choose, self.normalizes, self.net = choose, normalizes, nn.Linear(4, 3)
        self.optim = torch.optim.Adam(self.net.parameters(), 1e-3)
        obs, act = torch.randn(64, 4), torch.randint(3, (64,))
        self.batch = Batch(obs=obs, act=act, adv=torch.randn(64), logp_old=self.logp(obs, act).detach())
        if is_column:
            self.batch.adv = self.batch.adv[:, None]

    def logp(self, obs: Tensor, act: Tensor) -> Tensor:
        return self.net(obs).log_softmax(-1).gather(-1, act[:, None]).squeeze(-1)

    def update(self, batch: Any) -> None:
        for part in batch.split(32):
            adv = (part.adv - part.adv.mean()) / (part.adv.std() + 1e-8) if self.normalizes else part.adv
            adv = adv.reshape(-1)
            ratio = (self.logp(part.obs, part.act) - part.logp_old).exp()
            loss = -self.choose(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
            entropy = torch.distributions.Categorical(logits=self.net(part.obs)).entropy().mean()
            self.optim.zero_grad()
            (0.5 * loss - 0.01 * entropy).backward()
            self.optim.step()


@pytest.mark.parametrize(
    ("algorithm", "says"),
    [
        (Ppo(), ""),
        (Ppo(normalizes=True), ""),
        (Ppo(is_column=True), ""),
        (Ppo(torch.maximum), "it takes the larger of the two objectives"),
        (Ppo(lambda one, other: one), "nothing is clipped"),
    ],
)
def test_an_update_of_ppo(algorithm: Ppo, says: str):
    report = audit(algorithm.update, algorithm.batch, like="ppo_clip")
    found = [one for one in [*report.findings, *report.notes] if "TB514" in one.code]
    assert [one.text for one in found] == ([f"this is ppo_clip, but {says}"] if says else [])


class Dqn:
    def __init__(
        self, *, online: bool = False, done: bool = False, double: bool = True, shape: tuple[int, ...] = (32,)
    ) -> None:
        torch.manual_seed(0)
        self.q = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        self.q_target, self.online, self.done, self.double = copy.deepcopy(self.q), online, done, double
        for parameter in self.q_target.parameters():
            parameter.data.add_(0.1 * torch.randn_like(parameter))
        self.optim = torch.optim.Adam(self.q.parameters())
        ends = {name: torch.rand(shape) < 0.2 for name in ("terminated", "truncated")}
        obs = {name: torch.randn(32, 4) for name in ("obs", "obs_next")}
        self.batch = Batch(**obs, **ends, act=torch.randint(3, (32,)), rew=torch.randn(shape))

    def update(self, batch: Any) -> None:
        with torch.no_grad():
            after = (self.q if self.online else self.q_target)(batch.obs_next)
            act = (self.q(batch.obs_next) if self.double else after).argmax(-1, keepdim=True)
            end = batch.terminated | batch.truncated if self.done else batch.terminated
            target = batch.rew + 0.9 * after.gather(-1, act).view_as(batch.rew) * (~end).float()
        loss = smooth_l1_loss(self.q(batch.obs).gather(1, batch.act[:, None]).view_as(target), target)
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()


@pytest.mark.parametrize(
    ("algorithm", "like", "says"),
    [
        (Dqn(), "double_dqn", ""),
        (Dqn(double=False), "dqn", ""),
        (Dqn(shape=(32, 1)), "double_dqn", ""),
        (Dqn(double=False), "double_dqn", "this is double_dqn, but the slow network chooses actions, too"),
        (Dqn(done=True), "double_dqn", "this is double_dqn, but truncation is taken for termination"),
        (Dqn(online=True, double=False), "dqn", "this is dqn, but the trained network gives the values of next"),
        (Dqn(), "ppo_clip", "the update was not compared with ppo_clip: no place was found where it computes this"),
    ],
)
def test_an_update_of_dqn(algorithm: Dqn, like: str, says: str):
    settings = {"gamma": 0.9} if "dqn" in like else {}
    before = [parameter.clone() for parameter in algorithm.q.parameters()]
    report = audit(algorithm.update, algorithm.batch, like=like, settings=settings, replay=False)
    found = [one.text for one in [*report.findings, *report.notes] if "TB514" in one.code]
    assert len(found) == bool(says) and all(text.startswith(says) for text in found)  # noqa: PT018
    assert any(not torch.equal(one, other) for one, other in zip(before, algorithm.q.parameters(), strict=True))


class Stage(nn.Module):
    """Advantages whose values are those of a network of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def of(self, batch: Any) -> tuple[Tensor, Tensor]:
        with torch.no_grad():
            values, after = self.critic(batch.obs).squeeze(-1), self.critic(batch.obs_next).squeeze(-1)
        return gae(Batch(batch, v_s=values, v_s_=after)), values

    def rows(self, batch: Any, adv: Tensor, returns: Tensor, by: int = 1) -> Batch:
        first = lambda value: value.transpose(0, by).flatten(0, 1)  # noqa: E731
        return Batch(act=batch.act.mT.flatten(), adv=first(adv), returns=first(returns))


def steps_of_networks() -> Batch:
    torch.manual_seed(2)
    flags = {name: torch.rand(20, 4) < 0.1 for name in ("terminated", "truncated")}
    obs = torch.randn(20, 4, 3)
    ended = (flags["terminated"] | flags["truncated"])[..., None]
    after = torch.where(ended, torch.randn(20, 4, 3), torch.cat([obs[1:], torch.randn(1, 4, 3)]))
    return Batch(obs=obs, obs_next=after, act=torch.randint(3, (20, 4)), rew=torch.randn(20, 4), **flags)


def test_values_may_be_those_of_a_network_of_the_stage():
    stage, batch = Stage(), steps_of_networks()
    assert told(audit_stage(lambda b: stage.of(b)[0], batch, like="gae", settings=GAE)) == ""
    cut = Batch(batch)

    def cut_early(b: Any) -> Tensor:
        return stage.of(Batch(b, terminated=b.terminated | b.truncated))[0]

    assert "truncation is taken for termination" in told(audit_stage(cut_early, cut, like="gae", settings=GAE))
    with pytest.raises(SettingError, match="and the function calls no network that returns it for a field"):
        audit_stage(lambda b: b.rew, batch, like="gae", settings=GAE)


@pytest.mark.parametrize("uid", [objects([*"abc"] * 4), np.array([*"abc"] * 4)])
def test_columns_beside_the_input_of_a_network_may_hold_anything(uid: Any):
    torch.manual_seed(0)
    network = nn.Linear(3, 1)
    when, back = np.full(12, "2020-01-01", "M8[D]"), np.ones((12, 3))[::-1]
    scored = Batch(obs=torch.randn(12, 3), rewards=torch.randn(12), uid=uid, when=when, back=back)

    def grpo(batch: Any) -> Batch:
        by = groups(batch, "uid")
        adv = (batch.rewards - by.mean(batch.rewards)) / (by.std(batch.rewards) + 1e-4)
        return Batch(batch, advantages=adv, old_logp=network(batch.obs).squeeze(-1).detach())

    report = audit_stage(grpo, scored, like="grpo")
    assert (report.findings, report.notes) == ([], [])


def test_the_order_of_flat_rows_is_that_of_other_fields():
    stage, batch = Stage(), steps_of_networks()

    def process(b: Any, by: int = 1) -> Batch:
        adv, values = stage.of(b)
        return stage.rows(b, adv, adv + values, by)

    assert told(audit_stage(process, batch, like="gae", settings=GAE)) == ""
    told_of_steps = told(audit_stage(lambda b: process(b, 0), batch, like="gae", settings=GAE))
    assert told_of_steps == "its rows go step by step, and those of other fields by environment"


def test_returns_are_sums_of_values_and_of_advantages_before_they_are_normalized():
    stage, batch = Stage(), steps_of_networks()

    def process(b: Any, *, first: bool) -> Batch:
        adv, values = stage.of(b)
        normalized = (adv - adv.mean()) / (adv.std() + 1e-8)
        return stage.rows(b, normalized, values + (normalized if first else adv))

    assert told(audit_stage(lambda b: process(b, first=False), batch, like="gae", settings=GAE)) == ""
    found = told(audit_stage(lambda b: process(b, first=True), batch, like="gae", settings=GAE))
    assert found.startswith("returns are sums of values and of advantages that were normalized")


def token_gae(rewards: Tensor, values: Tensor, mask: Tensor, lam: float = 0.9, *, padding: bool = False) -> Tensor:
    values = values if padding else values * mask
    out, last, after = torch.zeros_like(rewards), 0, 0
    for t in reversed(range(rewards.shape[1])):
        last = rewards[:, t] + after - values[:, t] + lam * last
        out[:, t], after = last, values[:, t]
    return out * mask


def c51(probs: Tensor, rew: Tensor, terminated: Tensor, atoms: Tensor, *, loses: bool = False) -> Tensor:
    """The projection as it is often written, by floors and ceilings."""
    at = ((rew[:, None] + 0.9 * atoms * ~terminated[:, None]).clamp(atoms[0], atoms[-1]) - atoms[0]) / 0.5
    low, high = at.floor().long(), at.ceil().long()
    out = torch.zeros_like(probs)
    out.scatter_add_(1, low, probs * (high - at if loses else high + (high == low) - at))
    return out.scatter_add_(1, high, probs * (at - low))


MASK = torch.arange(7) < torch.tensor([[7], [4], [5], [2]])
BY_KEYWORDS: list[tuple[Callable[..., Any], dict[str, Any], str, dict[str, Any], dict[str, Any], str]] = [
    (
        token_gae,
        {"rewards": torch.randn(4, 7) * MASK, "values": torch.randn(4, 7), "mask": MASK},
        "token_gae",
        {"lam": 0.9},
        {"padding": True},
        "sums run through padding, whose values count",
    ),
    (
        c51,
        {
            "probs": torch.rand(6, 5).softmax(-1),
            "rew": torch.randn(6),
            "terminated": torch.rand(6) < 0.5,
            "atoms": torch.linspace(-1, 1, 5),
        },
        "c51",
        {"gamma": 0.9},
        {"loses": True},
        "the probability of a return that falls on an atom is lost",
    ),
]


@pytest.mark.parametrize(("function", "arguments", "like", "settings", "mistake", "text"), BY_KEYWORDS)
def test_a_function_of_keywords(function, arguments, like, settings, mistake, text):
    assert told(audit_stage(function, arguments, like=like, settings=settings)) == ""
    assert told(audit_stage(function, arguments | mistake, like=like, settings=settings)) == text


def test_clipped_losses_of_values():
    batch = Batch(**{name: torch.randn(32) for name in ("value", "old_values", "returns")})

    def loss(b: Any, worse: Any = torch.maximum) -> Tensor:
        near = b.old_values + (b.value - b.old_values).clamp(-0.2, 0.2)
        return 0.5 * worse((b.value - b.returns) ** 2, (near - b.returns) ** 2).mean()

    settings = {"clip": 0.2}
    assert told(audit_stage(loss, batch, like="value_clip", settings=settings)) == ""
    smaller = audit_stage(lambda b: loss(b, torch.minimum), batch, like="value_clip", settings=settings)
    assert told(smaller) == "it takes the smaller of the two losses"


def test_losses_of_kto():
    batch = Batch(
        logp=torch.randn(16), ref_logp=torch.randn(16), desirable=torch.arange(16) % 3 == 0, kl=torch.rand(16) - 0.2
    )

    def loss(b: Any, sign: int = 1) -> Tensor:
        apart = torch.where(b.desirable, 1, -1) * (b.logp - b.ref_logp - b.kl.clamp(min=0)) * sign
        return (1 - torch.sigmoid(0.1 * apart)).mean()

    assert told(audit_stage(loss, batch, like="kto")) == ""
    assert told(audit_stage(lambda b: loss(b, -1), batch, like="kto")) == "desirable and undesirable are exchanged"
