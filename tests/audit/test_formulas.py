"""Formulas that no algorithm has, and values that no rollout has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.overrides import TorchFunctionMode

from tests.audit.programs import ActorCritic, Q, Speaker, put
from tests.audit.test_laws import codes, says
from typedbatch import Batch, BatchRecord, RolloutBatch
from typedbatch.audit import Audit, audit


class Bins(BatchRecord):
    obs: Tensor
    bins: Tensor


@pytest.mark.parametrize(("is_lost", "found"), [(False, []), (True, ["TB510 suspect-values"])])
def test_sums_at_indices_that_occur_twice(is_lost, found):
    torch.manual_seed(0)
    net = nn.Linear(4, 1)
    optim = torch.optim.SGD(net.parameters(), 0.1)

    def update(batch: Any) -> None:
        value = net(batch.obs).squeeze(-1)
        sums = torch.zeros(4)
        if is_lost:
            sums[batch.bins] += value.detach()
        else:
            sums.index_add_(0, batch.bins, value.detach())
        optim.zero_grad()
        (value - sums[batch.bins]).square().mean().backward()
        optim.step()

    report = audit(update, Bins(obs=torch.randn(16, 4), bins=torch.arange(16) % 4))
    assert codes(report) == found, report


def test_values_that_are_taken_may_be_put_at_an_index_that_occurs_twice():
    net = nn.Linear(4, 1)
    optim = torch.optim.SGD(net.parameters(), 0.1)

    def update(batch: Any) -> None:
        last = torch.zeros(4, 4)
        last[batch.bins] = batch.obs[batch.bins]
        optim.zero_grad()
        net(last).mean().backward()
        optim.step()

    assert audit(update, Bins(obs=torch.randn(16, 4), bins=torch.arange(16) % 4)).findings == []


class Sampled(BatchRecord):
    response_ids: Tensor
    response_mask: Tensor
    advantages: Tensor
    rollout_logp: Tensor
    old_logp: Tensor


def sampled(speaker: Speaker, apart: float = 0.01) -> Sampled:
    tokens = speaker.batch()
    shape = tokens.response_ids.shape
    return Sampled(
        response_ids=tokens.response_ids, response_mask=tokens.response_mask, advantages=tokens.advantages.clone(),
        rollout_logp=tokens.old_logp + apart * torch.randn(shape), old_logp=tokens.old_logp,
    )  # fmt: skip


def corrected(speaker: Speaker, weight: Any) -> Any:
    def update(batch: Any) -> None:
        logp = speaker.logp(speaker.model, batch)
        gain = (logp - batch.old_logp).exp() * batch.advantages * weight(batch)
        speaker.optim.zero_grad()
        (-(gain * batch.response_mask).sum() / batch.response_mask.sum()).backward()
        speaker.optim.step()

    return update


def test_an_importance_weight_is_that_of_the_policy_over_that_of_the_sampler():
    speaker = Speaker()
    right = corrected(speaker, lambda batch: (batch.old_logp - batch.rollout_logp).exp().clamp(max=2.0))
    assert audit(right, sampled(speaker)).findings == []
    wrong = corrected(speaker, lambda batch: (batch.rollout_logp - batch.old_logp).exp().clamp(max=2.0))
    says(audit(wrong, sampled(speaker)), "TB507 wrong-weight", "probability of the sampler")


def test_samples_of_older_weights_are_noted_unless_they_are_corrected():
    speaker = Speaker()
    ignoring = corrected(speaker, lambda _: 1.0)
    (note,) = audit(ignoring, sampled(speaker, apart=0.3), replay=False).notes
    assert note.code == "TB505 unread-field"
    assert "the samples are of other weights" in note.text
    correcting = corrected(speaker, lambda batch: (batch.old_logp - batch.rollout_logp).exp())
    assert audit(correcting, sampled(speaker, apart=0.3), replay=False).notes == []
    assert audit(ignoring, sampled(speaker, apart=0.01), replay=False).notes == []


class OfTools(Sampled):
    loss_mask: Tensor


def test_tokens_of_tools_have_no_log_probability_of_the_sampler():
    speaker = Speaker()
    tokens = sampled(speaker, apart=0.0)
    loss_mask = tokens.response_mask & (torch.arange(tokens.response_mask.shape[1]) != 0)
    batch = OfTools(**dict(tokens.items()), loss_mask=loss_mask)
    batch.rollout_logp = tokens.old_logp * loss_mask

    def update(batch: Any) -> None:
        logp = speaker.logp(speaker.model, batch)
        gain = (logp - batch.old_logp).exp() * batch.advantages * batch.loss_mask
        speaker.optim.zero_grad()
        (-gain.sum() / batch.loss_mask.sum()).backward()
        speaker.optim.step()

    assert "the samples are of other weights" not in str(audit(update, batch, replay=False).notes)


def test_the_end_of_responses_is_a_part_of_them():
    speaker = put(Speaker(), "learn", lambda self, batch: self.update(batch, micro=8))
    batch = speaker.batch()
    count = batch.response_mask.sum(1)
    rows = (count < 6).nonzero()[:, 0]
    batch.response_ids[~batch.response_mask] = 0
    assert audit(speaker.update, batch, replay=False).notes == []
    batch.response_ids[batch.response_ids == 5] = 4
    batch.response_ids[rows, count[rows]] = 5
    (note,) = audit(speaker.learn, batch, replay=False, skip=["wrong-ratio"]).notes
    assert "response_mask ends before token 5" in note.text


def test_an_expectation_is_a_sum():
    def bootstrap(self: Any, batch: Any) -> Tensor:
        with torch.no_grad():
            values = self.target(batch.obs_next)
            return 0.99 * ~batch.terminated * (self.net(batch.obs_next).softmax(-1) * values).mean(-1)

    learner = put(Q(), "bootstrap", bootstrap)
    report = audit(learner.update, learner.batch(), replay=False, skip=["wrong-target"])
    says(report, "TB507 wrong-weight", "the mean over 2 choices", "take the sum")


class Gaussian(ActorCritic):
    """Actions of one dimension, whose log-probabilities come from a distribution."""

    def logp(self, obs: Tensor, act: Tensor) -> Tensor:
        return Normal(self.actor(obs)[:, 0], 1.0).log_prob(act.float())


def test_log_probabilities_of_distributions_are_known_as_such():
    def loss(self: Any, part: Any) -> Tensor:
        value = self.value(part.obs)
        weight = (part.returns - value).exp().clamp(max=20.0)
        return -(weight * self.logp(part.obs, part.act)).mean() + (value - part.returns).square().mean()

    ppo = put(Gaussian(), "loss", loss)
    report = audit(ppo.update, ppo.batch(), replay=False, skip=["unread-field"])
    says(report, "TB504 wrong-gradient", "the weight of a log-probability")
    assert audit(Gaussian().update, Gaussian().batch(), replay=False).findings == []


def ordered(is_reset: bool) -> RolloutBatch[Tensor]:
    """Steps of one environment, which is cut off at every eighth."""
    rows = Q().batch()
    obs = torch.randn(33, 4)
    cut = torch.arange(32) % 8 == 7
    after = obs[1:].clone()
    if not is_reset:
        after[cut] = torch.randn(4, 4)
    return RolloutBatch[Tensor](
        obs=obs[:-1], obs_next=after, act=rows.act, rew=rows.rew, terminated=~cut & False, truncated=cut, info=Batch()
    )


def test_the_next_observation_of_a_truncated_step_is_the_last_of_its_episode():
    learner = Q()
    assert audit(learner.update, ordered(is_reset=False), replay=False).notes == []
    (note,) = audit(learner.update, ordered(is_reset=True), replay=False).notes
    assert "the first one of the next episode; is it final_obs?" in note.text


def test_a_target_without_the_next_observation():
    def bootstrap(self: Any, batch: Any) -> Tensor:
        values = self.target(batch.obs).max(-1).values.detach().numpy()
        return torch.from_numpy(np.append(0.99 * values[1:], np.float32(0.0)))  # numpy is not traced

    learner = put(Q(), "bootstrap", bootstrap)
    batch = learner.batch()
    batch.terminated = torch.zeros_like(batch.terminated)
    report = audit(learner.update, batch, skip=["wrong-network"])
    assert any("obs_next never has an effect" in note.text for note in report.notes), report


class Counting(TorchFunctionMode):
    """A mode of the user."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        return func(*args, **(kwargs or {}))


def depth() -> int:
    return int(torch._C._len_torch_function_stack())  # noqa: SLF001  # torch has no public name for it


def test_modes_of_the_user_stay_as_they_are():
    learner = Q()
    mine = Counting()

    def update(batch: Any) -> None:
        with mine:
            learner.update(batch)
            assert depth() >= 1

    with Counting():
        report = audit(update, learner.batch(), replay=False)
        assert depth() == 1
    assert report.findings == []
    assert mine.count > 0
    assert depth() == 0


def test_a_step_that_fails_leaves_modes_as_they_are():
    learner = Q()

    class Failing(torch.optim.SGD):
        def step(self, closure: Any = None) -> Any:
            raise RuntimeError("no step")

    learner.optim = Failing(learner.net.parameters(), 0.1)

    def update(batch: Any) -> None:
        with pytest.raises(RuntimeError, match="no step"):
            learner.update(batch)
        with Counting():
            learner.net(batch.obs)
        assert depth() <= 1

    with Audit(on_finding="keep"):
        update(learner.batch())
    assert depth() == 0


def test_a_closure_of_a_step_is_seen():
    torch.manual_seed(0)
    learner = Q()
    learner.optim = torch.optim.LBFGS(learner.net.parameters(), 0.1, max_iter=2)

    def update(batch: Any) -> None:
        def closure() -> Tensor:
            learner.optim.zero_grad()
            loss = (learner.net(batch.obs)[:, :1] - batch.rew).square().mean()
            loss.backward()
            return loss

        learner.optim.step(closure)

    report = audit(update, learner.batch(), replay=False, skip=["wrong-network"])
    assert "TB502 all-rows" in codes(report)
