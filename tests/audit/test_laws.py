"""Each law of an update: a right learner keeps it, and a change in one place breaks it.

A law that is seen without replays, which start a process each, is looked for without them.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.distributions import Normal
from torch.nn import functional

from tests.audit.programs import ActorCritic, Q, Speaker, Step, Tokens, put
from typedbatch import Batch, BatchRecord, RolloutBatch, objects
from typedbatch.audit import Report, audit
from typedbatch.buffers import PrioritizedReplayBuffer, ReplayBuffer, compute_episodic_return
from typedbatch.rows import groups
from typedbatch.training import add_nstep

pytestmark = pytest.mark.slow  # Each trains, some with replays.


def codes(report: Report) -> list[str]:
    return [finding.code for finding in report.findings]


def says(report: Report, code: str, *words: str) -> None:
    """Check that there is one finding, with this code and these words."""
    assert codes(report) == [code], report
    for word in words:
        assert word in report.findings[0].text, report


@pytest.mark.parametrize("learner", [ActorCritic, Q, Speaker])
def test_a_right_learner_has_no_findings_and_no_notes(learner):
    made = learner()
    for _ in range(2):
        report = audit(made.update, made.batch(), replay=False)
        assert (report.findings, report.notes) == ([], [])


def test_old_log_probabilities_are_of_the_weights_before_the_first_step():
    ppo = ActorCritic()
    batch = ppo.batch()
    batch.logp_old = batch.logp_old - 0.5
    says(
        audit(ppo.update, batch, replay=False),
        "TB501 wrong-ratio",
        "|logp - logp_old| is 0.5 in the mean",
        "expected 0",
    )


def test_old_log_probabilities_are_computed_once():
    ppo = ActorCritic()

    def update(self: Any, batch: Step) -> None:
        for _ in range(3):
            batch.logp_old = self.logp(batch.obs, batch.act).detach()
            self.step(self.loss(batch))

    says(audit(put(ppo, "update", update).update, ppo.batch(), replay=False), "TB501 wrong-ratio", "is 0 again")


def test_a_schedule_that_begins_with_zero_changes_nothing_in_the_first_step():
    ppo = ActorCritic()
    for group in ppo.optim.param_groups:
        group["lr"] = 0.0
    assert audit(ppo.update, ppo.batch()).findings == []


def test_dropout_makes_the_ratio_a_note():
    ppo = ActorCritic()
    ppo.actor = nn.Sequential(nn.Dropout(0.5), ppo.actor)
    report = audit(ppo.update, ppo.batch(), replay=False)
    assert [note.code for note in report.notes] == ["TB501 wrong-ratio"]
    assert "dropout" in report.notes[0].text


def test_padding_of_a_recurrent_policy_does_not_count():
    class Padded(Step):
        mask: torch.Tensor

    ppo = ActorCritic()
    fields = Batch.to_dict(ppo.batch())
    fields["logp_old"][20:] = 0.0
    batch = Padded(**fields, mask=torch.arange(32) < 20)

    def update(batch: Padded) -> None:
        ratio = (ppo.logp(batch.obs, batch.act) - batch.logp_old).exp()
        ppo.step(-(ratio * batch.adv * batch.mask).sum() / batch.mask.sum())

    assert audit(update, batch, replay=False).findings == []


def test_a_batch_that_is_given_again_may_be_of_older_weights():
    ppo = ActorCritic()
    batch = ppo.batch()
    assert audit(ppo.update, batch).findings == []
    assert audit(ppo.update, batch).findings == []


def test_a_column_and_rows_are_not_combined():
    ppo = put(ActorCritic(), "value", lambda self, obs: self.critic(obs))
    says(
        audit(ppo.update, ppo.batch(), replay=False),
        "TB502 all-rows",
        "(16,) (from returns) and (16, 1) (from obs)",
        "16 x 16",
    )


def test_a_loss_over_all_pairs_of_the_same_values_is_meant():
    ppo = ActorCritic()

    def update(self: Any, batch: Step) -> None:
        value = self.value(batch.obs)
        self.step(functional.relu(1 - (value[:, None] - value[None])).mean())

    assert audit(put(ppo, "update", update).update, ppo.batch(), skip=["unread-field"]).findings == []


def test_fields_are_taken_at_the_same_rows():
    ppo = ActorCritic()

    def update(self: Any, batch: Step) -> None:
        order = torch.randperm(len(batch))
        logp = self.logp(batch.obs[order], batch.act[order])
        self.step(-((logp - batch.logp_old[order]).exp() * batch.adv).mean())

    report = audit(put(ppo, "update", update).update, ppo.batch(), replay=False)
    assert "TB503 other-rows" in codes(report)
    assert "meets adv of rows 0, 1, 2.." in str(report)


def test_rows_of_the_step_after_may_meet_those_of_the_step_before():
    ppo = ActorCritic()

    def update(self: Any, batch: Step) -> None:
        index = torch.arange(len(batch) - 1)
        self.step((self.value(batch.obs[index]) - 0.9 * batch.returns[index + 1]).square().mean())

    assert audit(put(ppo, "update", update).update, ppo.batch(), skip=["unread-field"]).findings == []


def test_transitions_may_be_made_of_a_trajectory():
    ppo = ActorCritic()

    def update(batch: Step) -> None:
        pairs = Batch(obs=batch.obs[:-1], act=batch.act[:-1], obs_next=batch.obs[1:])
        loss = functional.cross_entropy(ppo.actor(pairs.obs), pairs.act)
        ppo.step(loss + (ppo.value(pairs.obs_next) - 1).square().mean())

    assert audit(update, ppo.batch(), skip=["unread-field"]).findings == []


def test_rows_may_be_gathered_and_scattered():
    ppo = ActorCritic()

    def update(batch: Step) -> None:
        order = torch.randperm(len(batch))
        adv = batch.adv.gather(0, order)
        ppo.step(-(ppo.logp(batch.obs[order], batch.act[order]) * adv).mean())

    assert audit(update, ppo.batch(), skip=["unread-field", "wrong-gradient"]).findings == []


def test_priorities_are_in_the_order_of_the_sample():
    class Prioritized(Q):
        def update(self, batch: Any, slots: Any) -> None:
            errors = []
            for part in batch.split(8):
                chosen = self.chosen(part)
                loss = (chosen - part.rew).square() * torch.as_tensor(part.weight)
                self.optim.zero_grad()
                loss.mean().backward()
                self.optim.step()
                errors.append(loss.detach())
            buffer.update_weight(slots, torch.cat(errors))

    learner = Prioritized()
    buffer: Any = PrioritizedReplayBuffer(64, alpha=0.6, beta=0.4, random_seed=0)
    buffer.extend(learner.batch())
    report = audit(learner.update, *buffer.sample(32), replay=False)
    assert "priorities of rows" in str(report)


def test_rows_are_looked_up_in_their_own_buffer():
    learner = Q()
    own: Any = ReplayBuffer(64, random_seed=0)
    other: Any = ReplayBuffer(64, random_seed=0)
    own.extend(learner.batch())
    other.extend(learner.batch())

    def update(buffer: Any, batch: Any, slots: Any) -> None:
        made = add_nstep(batch, buffer, slots, lambda obs: learner.target(obs).max(-1).values, gamma=0.9, n=2)
        learner.step(learner.chosen(made), made.returns)

    batch, slots = own.sample(16)
    assert audit(update, own, batch, slots).findings == []
    says(audit(update, other, batch, slots), "TB503 other-rows", "is it another buffer?")


class Rewards(BatchRecord):
    uid: object
    obs: torch.Tensor
    rewards: torch.Tensor


def test_rewards_are_viewed_as_groups_where_rows_of_a_prompt_stand_together():
    ppo = ActorCritic()

    def update(batch: Rewards) -> None:
        table = batch.rewards.view(4, 4)
        adv = (table - table.mean(1, keepdim=True)).flatten()
        ppo.step(-(ppo.value(batch.obs) * adv).mean())

    obs, rewards = torch.randn(16, 4), torch.randn(16)
    together = Rewards(uid=objects([n // 4 for n in range(16)]), obs=obs, rewards=rewards)
    assert audit(update, together).findings == []
    apart = Rewards(uid=objects([n % 4 for n in range(16)]), obs=obs, rewards=rewards)
    says(audit(update, apart), "TB503 other-rows", "mixes rows of different uid")


def test_groups_are_made_before_rows_are_divided():
    ppo = ActorCritic()

    def update(batch: Rewards) -> None:
        for part in batch.split(6, shuffle=False):
            adv = part.rewards - groups(part, "uid").mean(part.rewards)
            ppo.step(-(ppo.value(part.obs) * adv).mean())

    batch = Rewards(uid=objects([n // 4 for n in range(16)]), obs=torch.randn(16, 4), rewards=torch.randn(16))
    assert "are made of a part of the rows" in str(audit(update, batch, replay=False).findings)


def test_a_target_has_no_gradient():
    learner = put(Q(), "bootstrap", lambda self, b: 0.9 * ~b.terminated * self.target(b.obs_next).max(-1).values)
    says(audit(learner.update, learner.batch(), replay=False), "TB504 wrong-gradient", "has gradients for target alone")


def test_an_advantage_has_no_gradient():
    ppo = ActorCritic()

    def update(self: Any, batch: Step) -> None:
        adv = batch.returns - self.value(batch.obs)
        self.step(-(self.logp(batch.obs, batch.act) * adv).mean())

    report = audit(put(ppo, "update", update).update, ppo.batch(), skip=["unread-field"], replay=False)
    says(report, "TB504 wrong-gradient", "has a gradient for critic; detach it")


def test_a_summand_that_was_detached_teaches_nothing():
    ppo = ActorCritic()

    def loss(self: Any, part: Any) -> Any:
        policy = -((self.logp(part.obs, part.act) - part.logp_old).exp() * part.adv).mean()
        return policy + (self.value(part.obs).detach() - part.returns).square().mean()

    report = audit(put(ppo, "loss", loss).update, ppo.batch(), replay=False)
    assert "an optimizer steps critic, but no loss has a gradient for it" in str(report.notes)
    assert "a summand of the loss, from obs, returns, has no gradient" in str(report)


class Continuous:
    """The actor's part of DDPG or SAC."""

    def __init__(self, *, differentiable: bool) -> None:
        torch.manual_seed(0)
        self.actor, self.critic, self.differentiable = nn.Linear(4, 1), nn.Linear(5, 1), differentiable
        self.optim = torch.optim.SGD(self.actor.parameters(), 0.1)
        for parameter in self.critic.parameters():
            parameter.requires_grad_(False)

    def update(self, batch: Any) -> None:
        dist = Normal(self.actor(batch.obs), 1.0)
        act = dist.rsample() if self.differentiable else dist.sample()
        value = self.critic(torch.cat([batch.obs, act], -1)).squeeze(-1)
        loss = (0.2 * dist.log_prob(act).squeeze(-1) - value).mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()


def test_an_action_without_a_gradient_does_not_teach_the_actor():
    batch = Q().batch()
    assert audit(Continuous(differentiable=True).update, batch).findings == []
    says(
        audit(Continuous(differentiable=False).update, batch), "TB504 wrong-gradient", "sample() in place of rsample()"
    )


def test_an_optimizer_has_all_of_a_module():
    ppo = ActorCritic()
    ppo.critic = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    ppo.optim = torch.optim.SGD([*ppo.actor.parameters(), *ppo.critic[0].parameters()], 0.1)
    says(audit(ppo.update, ppo.batch(), replay=False), "TB504 wrong-gradient", "although it steps the rest of critic")


def test_gradients_are_those_since_the_last_step():
    ppo = put(ActorCritic(), "step", lambda self, loss: (loss.backward(), self.optim.step()))
    assert "zero_grad() is missing" in str(audit(ppo.update, ppo.batch(), replay=False).findings)


def test_gradients_of_all_micro_batches_get_into_the_step():
    def update(self: Any, batch: Any) -> None:
        for part in batch.split(4, shuffle=False):
            self.optim.zero_grad()
            self.loss(part, batch.loss_mask.sum()).backward()
        self.optim.step()

    speaker = put(Speaker(), "update", update)
    assert "were removed before a step" in str(audit(speaker.update, speaker.batch(), replay=False).notes)


def test_no_gradient_is_left_at_the_end():
    def update(self: Any, batch: Any) -> None:
        self.optim.zero_grad()
        for number, part in enumerate(batch.split(2, shuffle=False)):
            self.loss(part, batch.loss_mask.sum()).backward()
            if number == 1:
                self.optim.step()
                self.optim.zero_grad()

    speaker = put(Speaker(), "update", update)
    report = audit(speaker.update, speaker.batch(), replay=False)
    assert "no step uses the gradients of the last 2 losses" in str(report.findings)


def test_a_loss_is_finite():
    ppo = ActorCritic()
    batch = ppo.batch()
    batch.returns[3] = float("nan")
    assert "TB510 suspect-values" in codes(audit(ppo.update, batch, replay=False))


def test_a_target_is_a_copy():
    learner = Q()
    learner.target = learner.net
    assert "target has the parameters of net itself" in str(
        audit(learner.update, learner.batch(), replay=False).findings
    )


def test_a_target_is_not_stepped():
    learner = Q()
    learner.optim.add_param_group({"params": [*learner.target.parameters()]})
    assert "an optimizer steps target, which only follows" in str(
        audit(learner.update, learner.batch(), replay=False).findings
    )


def test_the_target_follows_and_not_the_network():
    learner = Q()
    learner.update(learner.batch())  # so that the two differ
    before = learner.update

    def update(self: Any, batch: Any) -> None:
        before(batch)
        with torch.no_grad():
            for slow, fast in zip(self.target.parameters(), self.net.parameters(), strict=True):
                fast.lerp_(slow, 0.05)

    says(
        audit(put(learner, "update", update).update, learner.batch(), replay=False),
        "TB506 wrong-network",
        "soft update",
    )


def test_a_target_is_called():
    learner = put(
        Q(), "bootstrap", lambda self, b: (0.9 * ~b.terminated * self.net(b.obs_next).max(-1).values).detach()
    )
    assert "target was never called" in str(audit(learner.update, learner.batch(), replay=False).findings)


def test_a_policy_gradient_has_a_sign():
    ppo = ActorCritic()
    right = ppo.loss
    report = audit(put(ppo, "loss", lambda self, part: -right(part)).update, ppo.batch(), replay=False)
    assert "is a sign wrong?" in str(report.findings)


@pytest.mark.parametrize("form", ["log_prob", "cross_entropy", "normalized"])
def test_a_policy_gradient_without_a_ratio(form):
    ppo = ActorCritic()

    def loss(batch: Step, sign: int) -> Any:
        adv = (batch.adv - batch.adv.mean()) / batch.adv.std() if form == "normalized" else batch.adv
        if form == "cross_entropy":
            return sign * (functional.cross_entropy(ppo.actor(batch.obs), batch.act, reduction="none") * adv).mean()
        return -sign * (ppo.logp(batch.obs, batch.act) * adv).mean()

    skip = ["wrong-gradient", "unread-field"]
    assert audit(lambda batch: ppo.step(loss(batch, 1)), ppo.batch(), skip=skip).findings == []
    says(
        audit(lambda batch: ppo.step(loss(batch, -1)), ppo.batch(), skip=skip), "TB507 wrong-weight", "is a sign wrong?"
    )


def test_an_optimizer_that_maximizes():
    ppo = ActorCritic()
    ppo.optim = torch.optim.SGD(ppo.actor.parameters(), 0.1, maximize=True)

    def update(batch: Step) -> None:
        ratio = (ppo.logp(batch.obs, batch.act) - batch.logp_old).exp()
        ppo.step(torch.min(ratio * batch.adv, ratio.clamp(0.8, 1.2) * batch.adv).mean())

    assert audit(update, ppo.batch()).findings == []


def test_the_smaller_objective_counts():
    ppo = ActorCritic()

    def loss(self: Any, part: Any) -> Any:
        ratio = (self.logp(part.obs, part.act) - part.logp_old).exp()
        return -torch.max(ratio * part.adv, ratio.clamp(0.8, 1.2) * part.adv).mean()

    report = audit(put(ppo, "loss", loss).update, ppo.batch(), skip=["wrong-gradient"], replay=False)
    says(report, "TB507 wrong-weight", "PPO takes the smaller objective")


def test_tokens_outside_the_mask_have_no_effect():
    def loss(self: Any, part: Any, total: Any) -> Any:
        ratio = (self.logp(self.model, part) - part.old_logp).exp()
        return -(ratio * part.advantages.amax(1, keepdim=True) * part.response_mask).sum() / total

    speaker = put(Speaker(), "loss", loss)
    report = audit(speaker.update, speaker.batch(), replay=False)
    assert "tokens outside loss_mask have an effect on the loss" in str(report.findings)


def test_a_mask_is_not_shifted():
    def loss(self: Any, part: Any, total: Any) -> Any:
        ratio = (self.logp(self.model, part) - part.old_logp).exp()
        return -(ratio * part.advantages * part.loss_mask.roll(1, 1)).sum() / total

    speaker = put(Speaker(), "loss", loss)
    report = audit(speaker.update, speaker.batch(), replay=False)
    assert "tokens in loss_mask have no effect on the loss; is a mask shifted?" in str(report.findings)


def test_tokens_of_all_micro_batches_weigh_the_same():
    right = Speaker.loss
    speaker = put(Speaker(), "loss", lambda self, part, total: right(self, part, part.loss_mask.sum() * 2))
    assert "weighs 1." in str(audit(speaker.update, speaker.batch(), replay=False).findings)


def test_a_sum_over_a_mask_is_divided_by_its_count():
    right = Speaker.loss
    speaker = put(Speaker(), "loss", lambda self, part, total: right(self, part, part.response_mask.sum()))
    assert "divided by the number of those in response_mask" in str(
        audit(speaker.update, speaker.batch(), replay=False).findings
    )


def test_weights_are_multiplied_before_the_mean():
    class Weighted(BatchRecord):
        obs: torch.Tensor
        returns: torch.Tensor
        weight: torch.Tensor

    ppo = ActorCritic()

    def update(batch: Weighted) -> None:
        ppo.step((batch.weight * functional.mse_loss(ppo.value(batch.obs), batch.returns)).mean())

    batch = Weighted(obs=torch.randn(8, 4), returns=torch.randn(8), weight=torch.rand(8))
    says(audit(update, batch, replay=False), "TB507 wrong-weight", "weight (8,) is multiplied with a mean over rows")


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (lambda x, act: functional.cross_entropy(x.softmax(-1), act), "the probabilities of a softmax"),
        (lambda x, act: functional.nll_loss(x, act), "use log_softmax"),
        (lambda x, act: x.logsumexp(0).mean(), "runs over the 32 rows"),
        (lambda x, act: (x - x.mean()).square().mean(), "a mean over all rows"),
    ],
)
def test_formulas_that_no_algorithm_has(formula, text):
    ppo = ActorCritic()
    ppo.actor = nn.Linear(4, 3)
    update = put(ppo, "update", lambda self, b: self.step(formula(self.actor(b.obs), b.act))).update
    report = audit(update, ppo.batch(), skip=["wrong-gradient", "unread-field"], replay=False)
    assert text in str([*report.findings, *report.notes])


def test_nothing_follows_a_terminal_step():
    def bootstrap(self: Any, batch: Any) -> Any:
        with torch.no_grad():
            return 0.99 * self.target(batch.obs_next).max(-1).values

    learner = put(Q(), "bootstrap", bootstrap)
    report = audit(learner.update, learner.batch(), replay=False)
    says(report, "TB508 wrong-target", "in 4 rows in which the episode has terminated; terminated was not read")


def test_values_of_terminal_steps_may_be_replaced_afterwards():
    def update(self: Any, batch: Any) -> None:
        with torch.no_grad():
            goal = batch.rew + 0.99 * self.target(batch.obs_next).max(-1).values
            goal = torch.where(batch.terminated, batch.rew, goal)
        self.step(self.chosen(batch), goal)

    learner = put(Q(), "update", update)
    assert audit(learner.update, learner.batch()).findings == []


def test_something_follows_a_truncated_step():
    def bootstrap(self: Any, batch: Any) -> Any:
        with torch.no_grad():
            return 0.99 * ~(batch.terminated | batch.truncated) * self.target(batch.obs_next).max(-1).values

    learner = put(Q(), "bootstrap", bootstrap)
    report = audit(learner.update, learner.batch())
    assert codes(report) == ["TB508 wrong-target", "TB511 replay-differs"]
    assert "in 4 truncated rows" in report.findings[0].text
    assert "obs_next has no effect in the 4 rows that are truncated" in report.findings[1].text


def test_a_bonus_for_new_observations_is_no_value():
    learner = Q()
    fixed, predictor = nn.Linear(4, 4), nn.Linear(4, 4)
    optim = torch.optim.SGD(predictor.parameters(), 0.1)

    def update(batch: Any) -> None:
        bonus = (fixed(batch.obs_next) - predictor(batch.obs_next)).square().mean(-1)
        batch = Batch(batch)
        batch.rew = batch.rew + 0.1 * bonus.detach()
        optim.zero_grad()
        bonus.mean().backward()
        optim.step()
        learner.update(batch)

    for parameter in fixed.parameters():
        parameter.requires_grad_(False)
    assert audit(update, learner.batch()).findings == []


def test_the_value_after_a_step_is_that_of_the_next_observation():
    def bootstrap(self: Any, batch: Any) -> Any:
        with torch.no_grad():
            return 0.99 * ~batch.terminated * self.target(batch.obs).max(-1).values

    learner = put(Q(), "bootstrap", bootstrap)
    says(audit(learner.update, learner.batch(), replay=False), "TB508 wrong-target", "comes from obs, not obs_next")


def test_values_after_the_steps_are_not_those_before_them():
    learner, rollout = Q(), Q().batch().to_numpy()

    def update(batch: Any, nxt: str) -> None:
        with torch.no_grad():
            now, after = (learner.net(torch.as_tensor(batch[name]))[:, 0].numpy() for name in ("obs", nxt))
        returns, _ = compute_episodic_return(batch, v_s_=after, v_s=now)
        learner.step(learner.net(torch.as_tensor(batch.obs))[:, 0], torch.as_tensor(returns).float())

    assert audit(update, rollout, "obs_next", skip=["wrong-network"]).findings == []
    report = audit(update, rollout, "obs", skip=["wrong-network"])
    says(report, "TB508 wrong-target", "given as v_s_, are those of obs")


def test_an_update_reads_the_batch_that_it_is_given():
    ppo = ActorCritic()
    first = ppo.batch()

    def update(batch: Step) -> None:
        ppo.update(first)

    says(audit(update, ppo.batch(), replay=False), "TB505 unread-field", "never reads the batch that it is given")


def test_an_update_may_put_its_batch_into_a_buffer():
    learner = Q()
    buffer: Any = ReplayBuffer(64, random_seed=0)

    def update(batch: Any) -> None:
        buffer.extend(batch)
        learner.update(buffer.sample(32)[0])

    assert audit(update, learner.batch(), replay=False).findings == []


def test_the_values_of_a_target_are_those_of_the_slow_copy():
    def bootstrap(self: Any, batch: Any) -> Any:
        with torch.no_grad():
            best = self.target(batch.obs_next).argmax(-1, keepdim=True)
            return 0.99 * ~batch.terminated * self.net(batch.obs_next).gather(-1, best).squeeze(-1)

    learner = put(Q(), "bootstrap", bootstrap)
    says(audit(learner.update, learner.batch(), replay=False), "TB508 wrong-target", "are those of net, not of target")


def test_the_return_of_a_terminal_step_is_its_reward():
    class Ready(RolloutBatch[torch.Tensor]):
        returns: torch.Tensor

    learner = Q()
    rows = learner.batch()
    rows.rew = torch.ones_like(rows.rew)

    def update(batch: Any) -> None:
        learner.step(learner.net(batch.obs)[:, 0], batch.returns)

    returns = torch.where(rows.terminated, rows.rew, torch.randn_like(rows.rew))
    fields = Batch.to_dict(rows, recursive=False)
    skip = ["wrong-network"]
    assert audit(update, Ready(returns=returns, **fields), skip=skip).findings == []
    report = audit(update, Ready(returns=torch.randn_like(rows.rew), **fields), skip=skip)
    says(report, "TB508 wrong-target", "returns of terminal steps with one and the same reward differ")


def test_obs_and_obs_next_are_transformed_alike():
    def update(self: Any, batch: Any) -> None:
        goal = batch.rew + self.bootstrap(batch)
        chosen = self.net(batch.obs / 255 - 0.5).gather(-1, batch.act[:, None]).squeeze(-1)
        self.step(chosen, goal)

    learner = put(Q(), "update", update)
    says(
        audit(learner.update, learner.batch(), replay=False),
        "TB503 other-rows",
        "target takes obs_next as it is",
        "after div, sub",
    )


def test_log_probabilities_are_fine_enough():
    ppo = ActorCritic()
    batch = ppo.batch()
    batch.logp_old = batch.logp_old.bfloat16()
    assert "logp_old is bfloat16" in str(audit(ppo.update, batch, replay=False).findings)


def test_returns_and_advantages_have_their_own_values():
    ppo = ActorCritic()

    def update(batch: Step) -> None:
        made = Step(
            obs=batch.obs, act=batch.act, logp_old=batch.logp_old, adv=batch.returns, returns=batch.adv
        )  # exchanged
        ppo.update(made)

    assert "adv has the values of returns, and returns those of adv" in str(
        audit(update, ppo.batch(), replay=False).findings
    )


def test_a_field_of_losses_is_read():
    ppo = ActorCritic()
    ppo.loss = lambda part: -(ppo.logp(part.obs, part.act) * part.adv).mean()  # type: ignore[method-assign]
    report = audit(ppo.update, ppo.batch(), skip=["wrong-gradient"], replay=False)
    assert "never logp_old" in str(report.notes)


def test_a_required_field_that_is_blank_need_not_be_read():
    ppo = ActorCritic()
    ppo.loss = lambda part: -(ppo.logp(part.obs, part.act) * part.adv).mean()  # type: ignore[method-assign]
    batch = ppo.batch()
    batch.logp_old = torch.zeros_like(batch.logp_old)
    assert audit(ppo.update, batch, skip=["wrong-gradient"]).notes == []


def test_a_field_is_not_changed_in_place_twice():
    ppo = ActorCritic()

    def update(batch: Step) -> None:
        for _ in range(2):
            returns = batch.returns
            returns *= 0.5
            ppo.step(ppo.loss(batch))

    assert "returns is changed in place again" in str(audit(update, ppo.batch(), replay=False).findings)


def test_observations_go_on():
    learner = Q()
    batch = learner.batch()
    batch.obs = batch.obs[:1].expand_as(batch.obs).clone()
    report = audit(learner.update, batch, replay=False)
    assert "obs has 1 different rows of 32, but obs_next has 32" in str(report.findings)
    assert "obs is the same at all 32 steps" in str(report.notes)


def test_values_outside_the_mask_have_no_effect():
    right = Speaker.update

    def update(self: Any, batch: Any) -> None:
        made = Tokens(**{**Batch.to_dict(batch), "advantages": batch.advantages - batch.advantages.mean()})
        made.advantages = made.advantages * made.loss_mask
        right(self, made)

    speaker = put(Speaker(), "update", update)
    says(audit(speaker.update, speaker.batch()), "TB511 replay-differs", "advantages outside loss_mask has an effect")


def test_an_argument_that_must_not_matter():
    right = Speaker.loss
    speaker = Speaker()
    vary = {"micro": [2, 4, 8]}
    assert audit(speaker.update, speaker.batch(), vary=vary).findings == []
    put(speaker, "loss", lambda self, part, total: right(self, part, part.loss_mask.sum()))
    report = audit(speaker.update, speaker.batch(), vary=vary, skip=["wrong-weight"])
    says(report, "TB511 replay-differs", "with micro=4 are not those with micro=2")


def test_an_update_that_draws_from_elsewhere_is_not_replayed():
    ppo = ActorCritic()
    right = ppo.update

    def update(batch: Step) -> None:
        batch.obs = batch.obs * (1 + os.getpid() % 97 / 97)  # each replay is a process
        right(batch)

    report = audit(update, ppo.batch(), skip=["wrong-ratio", "wrong-weight"])
    assert "two replays of one batch differ" in str(report.notes)
    assert report.findings == []


def test_a_note_is_no_finding():
    def loss(self: Any, part: Any, total: Any) -> Any:
        ratio = (self.logp(self.model, part) - part.old_logp).exp()
        return -(ratio * part.advantages * part.loss_mask).sum() / (len(part) * part.loss_mask.shape[1])

    speaker = put(Speaker(), "loss", loss)
    report = audit(speaker.update, speaker.batch())
    assert report.findings == []
    assert "columns of padding have an effect on gradients" in str(report.notes)
    assert np.isfinite(len(report.notes))
