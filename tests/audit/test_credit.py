"""Laws of credit, tried by replays: what each row and token teaches, and what changes it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from tests.audit.programs import ActorCritic, Speaker, put
from tests.audit.test_laws import codes, says
from typedbatch import BatchRecord, objects
from typedbatch.audit import audit

ENVS, STEPS = 4, 24


class Walk(BatchRecord):
    obs: Tensor
    act: Tensor
    rew: Tensor
    terminated: Tensor


class Reinforce:
    """A policy gradient with the rewards to go, a value as baseline, and rows of several environments in turn."""

    def __init__(self, choices: int = 3) -> None:
        torch.manual_seed(0)
        self.policy, self.value = nn.Linear(4, choices), nn.Linear(4, 1)
        self.optim = torch.optim.SGD([*self.policy.parameters(), *self.value.parameters()], 0.1)
        self.choices = choices

    def batch(self) -> Walk:
        count = ENVS * STEPS
        ends = torch.zeros(STEPS, ENVS, dtype=torch.bool)
        for env in range(ENVS):
            ends[5 + env :: 7, env] = True
        return Walk(
            obs=torch.randn(count, 4),
            act=torch.randint(self.choices, (count,)),
            rew=torch.randn(count),
            terminated=ends.flatten(),
        )

    def going(self, ends: Tensor) -> Tensor:
        return (~ends).float()

    def returns(self, batch: Any) -> Tensor:
        rew, ends = batch.rew.view(STEPS, ENVS), batch.terminated.view(STEPS, ENVS)
        out, running = torch.zeros_like(rew), torch.zeros(ENVS)
        for t in reversed(range(STEPS)):
            out[t] = running = rew[t] + 0.9 * self.going(ends[t]) * running
        return out.flatten()

    def weights(self, adv: Tensor) -> Tensor:
        return adv

    def update(self, batch: Any) -> None:
        returns = self.returns(batch)
        value = self.value(batch.obs).squeeze(-1)
        logp = self.policy(batch.obs).log_softmax(-1).gather(-1, batch.act[:, None]).squeeze(-1)
        loss = -(self.weights(returns - value.detach()) * logp).mean() + (value - returns).square().mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()


@pytest.mark.parametrize("choices", [2, 3])
def test_rewards_to_go_keep_all_laws(choices):
    learner = Reinforce(choices)
    report = audit(learner.update, learner.batch())
    assert (report.findings, report.notes) == ([], [])


def test_rewards_of_the_next_episode_do_not_count():
    learner = put(Reinforce(), "going", lambda _, ends: torch.ones_like(ends, dtype=torch.float32))
    says(audit(learner.update, learner.batch()), "TB508 wrong-target", "rew of steps after the end of an episode")


def test_a_normalization_of_all_rows_is_no_reward_of_the_next_episode():
    learner = put(Reinforce(), "weights", lambda _, adv: (adv - adv.mean()) / adv.std())
    assert audit(learner.update, learner.batch()).findings == []


def test_whole_episodes_one_after_another_are_no_finding():
    """The flags make no difference at the end of a block, after which nothing follows."""

    def returns(self: Any, batch: Any) -> Tensor:
        rew = batch.rew.view(ENVS, STEPS)
        out = rew.flip(1).cumsum(1).flip(1)
        return ((out - out.mean()) / out.std()).flatten()

    learner = put(Reinforce(), "returns", returns)
    batch = learner.batch()
    batch.terminated = (torch.arange(ENVS * STEPS) % STEPS) == STEPS - 1
    assert audit(learner.update, batch).findings == []


def test_a_reward_is_that_of_its_own_step():
    def returns(self: Any, batch: Any) -> Tensor:
        return batch.rew.roll(1)

    learner = put(Reinforce(), "returns", returns)
    report = audit(learner.update, learner.batch())
    assert any("none on what this row does" in note.text for note in report.notes), report
    assert report.findings == []


@pytest.mark.parametrize("choices", [2, 3])
def test_the_sign_is_seen_in_any_spelling(choices):
    def weights(self: Any, adv: Tensor) -> Tensor:
        return -adv

    learner = put(Reinforce(choices), "weights", weights)
    says(audit(learner.update, learner.batch()), "TB507 wrong-weight", "pushes the output of its action down")


def test_the_sign_of_a_quotient_of_probabilities():
    def loss(self: Any, part: Any) -> Tensor:
        ratio = part.logp_old.exp() / self.logp(part.obs, part.act).exp()  # the wrong way round
        return -(ratio * part.adv).mean() + (self.value(part.obs) - part.returns).square().mean()

    ppo = put(ActorCritic(), "loss", loss)
    report = audit(ppo.update, ppo.batch())
    assert "TB507 wrong-weight" in codes(report), report


def test_advantages_are_those_of_their_rows():
    def loss(self: Any, part: Any) -> Tensor:
        adv = torch.as_tensor(np.roll(part.adv.numpy(), 1))  # numpy is not traced
        logp = self.logp(part.obs, part.act)
        return -(adv * logp).mean() + (self.value(part.obs) - part.returns).square().mean()

    ppo = put(ActorCritic(), "loss", loss)
    report = audit(ppo.update, ppo.batch(), skip=["unread-field"])
    assert "TB503 other-rows" in codes(report), report


class Heads(BatchRecord):
    obs: Tensor
    act: Tensor
    adv: Tensor


@pytest.mark.parametrize(("second", "found"), [(1, []), (0, ["TB505 unread-field"])])
def test_each_component_of_an_action_has_an_effect(second, found):
    torch.manual_seed(0)
    net = nn.Linear(4, 6)
    optim = torch.optim.SGD(net.parameters(), 0.1)

    def update(batch: Any) -> None:
        heads = net(batch.obs).view(-1, 2, 3).log_softmax(-1)
        logp = heads[:, 0].gather(-1, batch.act[:, :1]) + heads[:, 1].gather(-1, batch.act[:, second : second + 1])
        optim.zero_grad()
        (-(logp.squeeze(-1) * batch.adv).mean()).backward()
        optim.step()

    batch = Heads(obs=torch.randn(16, 4), act=torch.randint(3, (16, 2)), adv=torch.randn(16))
    report = audit(update, batch)
    assert codes(report) == found, report


class Scores(BatchRecord):
    response_ids: Tensor
    response_mask: Tensor
    rewards: Tensor
    uid: Any
    old_logp: Tensor
    ref_logp: Tensor


class Grouped(Speaker):
    """Four prompts with three samples each, whose baselines and penalties are computed in the update."""

    def scores(self) -> Scores:
        tokens = self.batch()
        rows = [0, 1, 3, 5, 0, 1, 3, 5, 0, 1, 3, 5]
        return Scores(
            response_ids=torch.randint(1, 6, (12, 6)), response_mask=tokens.response_mask[rows],
            rewards=torch.randn(12), uid=objects([(number // 3, "prompt") for number in range(12)]),
            old_logp=tokens.old_logp[rows], ref_logp=tokens.old_logp[rows] - 0.1 * torch.rand(12, 6),
        )  # fmt: skip

    def baseline(self, rewards: Tensor) -> Tensor:
        return rewards.view(4, 3).mean(1, keepdim=True).expand(4, 3).flatten()

    def sums(self, rewards: Tensor) -> Tensor:
        return rewards.flip(1).cumsum(1).flip(1)

    def learn(self, batch: Any) -> None:
        logp = self.logp(self.model, batch)
        per_token = -0.1 * (logp.detach() - batch.ref_logp) * batch.response_mask
        adv = (batch.rewards - self.baseline(batch.rewards))[:, None] + self.sums(per_token)
        self.optim.zero_grad()
        (-(adv * logp * batch.response_mask).sum() / batch.response_mask.sum()).backward()
        self.optim.step()


def audit_groups(**methods: Any) -> Any:
    learner = Grouped()
    for name, method in methods.items():
        put(learner, name, method)
    return audit(learner.learn, learner.scores(), skip=["unread-field"])


def test_groups_and_penalties_keep_all_laws():
    report = audit_groups()
    assert (report.findings, report.notes) == ([], [])


def test_a_baseline_is_that_of_its_group():
    def baseline(self: Any, rewards: Tensor) -> Tensor:
        halves = rewards.numpy().reshape(2, 6)  # numpy is not traced
        return torch.from_numpy(halves.mean(1).repeat(6))

    assert any(
        "changes what those to some other prompts teach" in note.text for note in audit_groups(baseline=baseline).notes
    )


def test_a_statistic_of_all_rewards_is_no_baseline_of_other_prompts():
    report = audit_groups(baseline=lambda _, rewards: rewards.mean())
    assert (report.findings, report.notes) == ([], [])


def test_a_penalty_counts_for_the_tokens_before_it():
    report = audit_groups(sums=lambda _, rewards: rewards.cumsum(1))
    says(report, "TB508 wrong-target", "ref_logp of the first token changes what later tokens teach")


def test_a_penalty_of_a_whole_response_counts_for_all_of_its_tokens():
    report = audit_groups(sums=lambda _, rewards: rewards.sum(1, keepdim=True).expand_as(rewards))
    assert report.findings == []


class Taught(BatchRecord):
    response_ids: Tensor
    response_mask: Tensor
    teacher_logp: Tensor


@pytest.mark.parametrize(("shift", "found"), [(0, []), (1, ["TB503 other-rows"])])
def test_a_token_is_learned_where_it_is_not_seen(shift, found):
    speaker = Speaker()

    def update(batch: Any) -> None:
        first = torch.zeros(len(batch.response_ids), 1, dtype=torch.long)
        logits = speaker.model(torch.cat([first, batch.response_ids], 1))
        logits = logits[:, shift : shift + batch.response_ids.shape[1]]
        apart = functional.kl_div(logits.log_softmax(-1), batch.teacher_logp, log_target=True, reduction="none").sum(-1)
        speaker.optim.zero_grad()
        ((apart * batch.response_mask).sum() / batch.response_mask.sum()).backward()
        speaker.optim.step()

    tokens = speaker.batch()
    teacher = torch.randn(*tokens.response_ids.shape, 6).log_softmax(-1)
    batch = Taught(response_ids=tokens.response_ids, response_mask=tokens.response_mask, teacher_logp=teacher)
    assert codes(audit(update, batch)) == found


class Sides(BatchRecord):
    chosen_ids: Tensor
    chosen_mask: Tensor
    rejected_ids: Tensor
    rejected_mask: Tensor
    ref_chosen_logp: Tensor
    ref_rejected_logp: Tensor


class Preference(Speaker):
    """DPO with references that were computed before."""

    def sides(self) -> Sides:
        return Sides(
            chosen_ids=torch.randint(1, 6, (8, 6)), chosen_mask=torch.ones(8, 6, dtype=torch.bool),
            rejected_ids=torch.randint(1, 6, (8, 6)), rejected_mask=torch.ones(8, 6, dtype=torch.bool),
            ref_chosen_logp=-10 - torch.rand(8), ref_rejected_logp=-10 - torch.rand(8),
        )  # fmt: skip

    def side(self, ids: Tensor, mask: Tensor) -> Tensor:
        first = torch.zeros(len(ids), 1, dtype=torch.long)
        logp = self.model(torch.cat([first, ids], 1))[:, :-1].log_softmax(-1).gather(-1, ids[..., None])[..., 0]
        return (logp * mask).sum(1)

    def references(self, batch: Any) -> tuple[Tensor, Tensor]:
        return batch.ref_chosen_logp, batch.ref_rejected_logp

    def pairs(self, chosen: Tensor, rejected: Tensor) -> Tensor:
        return chosen - rejected

    def learn(self, batch: Any) -> None:
        chosen = self.side(batch.chosen_ids, batch.chosen_mask)
        rejected = self.side(batch.rejected_ids, batch.rejected_mask)
        first, second = self.references(batch)
        margin = self.pairs(chosen, rejected) - (first - second)
        self.optim.zero_grad()
        (-functional.logsigmoid(0.1 * margin).mean()).backward()
        self.optim.step()


def test_pairs_keep_all_laws():
    learner = Preference()
    report = audit(learner.learn, learner.sides())
    assert (report.findings, report.notes) == ([], [])


def test_references_are_not_exchanged():
    learner = put(Preference(), "references", lambda _, batch: (batch.ref_rejected_logp, batch.ref_chosen_logp))
    says(audit(learner.learn, learner.sides()), "TB507 wrong-weight", "the two references exchanged")


def test_a_chosen_response_is_compared_with_that_of_its_row():
    learner = put(Preference(), "pairs", lambda _, chosen, rejected: chosen - rejected.flip(0))
    report = audit(learner.learn, learner.sides())
    assert "TB503 other-rows" in codes(report), report


def test_both_sides_have_their_own_counts():
    def update(batch: Any) -> None:
        chosen = learner.side(batch.chosen_ids, batch.chosen_mask) / batch.chosen_mask.sum(1)
        rejected = learner.side(batch.rejected_ids, batch.rejected_mask) / batch.chosen_mask.sum(1)
        learner.optim.zero_grad()
        (-functional.logsigmoid(chosen - rejected).mean()).backward()
        learner.optim.step()

    learner = Preference()
    says(audit(update, learner.sides(), skip=["unread-field"]), "TB507 wrong-weight", "divided by chosen_mask")


def test_replays_leave_weights_and_learning_rates_as_they_are():
    learner, other = Reinforce(), Reinforce()
    batch = learner.batch()
    audit(learner.update, batch)
    other.update(copy.deepcopy(batch))
    assert [group["lr"] for group in learner.optim.param_groups] == [0.1]
    assert all(torch.equal(a, b) for a, b in zip(learner.policy.parameters(), other.policy.parameters(), strict=True))
