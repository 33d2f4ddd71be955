"""Right programs that look like mistakes, each beside the mistake that it looks like."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.audit.test_laws import codes
from typedbatch import Batch
from typedbatch.audit import audit


def logp(net: nn.Module, obs: Tensor, act: Tensor) -> Tensor:
    return net(obs).log_softmax(-1).gather(-1, act[:, None]).squeeze(-1)


@pytest.mark.parametrize(
    ("sampled_by", "on_policy", "found", "noted"),
    [
        ("now", False, [], []),
        ("older", False, [], ["TB501 wrong-ratio"]),
        ("older", True, ["TB501 wrong-ratio"], []),
        ("other rows", False, ["TB501 wrong-ratio"], []),
        ("other actions", False, ["TB501 wrong-ratio"], []),
    ],
)
def test_a_ratio_may_be_that_of_an_older_policy(sampled_by: str, on_policy: bool, found: Any, noted: Any):
    torch.manual_seed(0)
    net = nn.Linear(4, 5)
    older, optim, obs = copy.deepcopy(net), torch.optim.SGD(net.parameters(), 0.1), torch.randn(512, 4)
    with torch.no_grad():
        older.weight.add_(0.2 * torch.randn(5, 4) * (sampled_by == "older"))
        act = torch.distributions.Categorical(logits=older(obs)).sample()
        old = logp(older, obs, (act + 1) % 5 if sampled_by == "other actions" else act)
        old = old.roll(1) if sampled_by == "other rows" else old

    def update(batch: Any) -> None:
        ratio = (logp(net, batch.obs, batch.act) - batch.logp_old).exp()
        optim.zero_grad()
        (-ratio * batch.adv).mean().backward()
        optim.step()

    batch = Batch(obs=obs, act=act, logp_old=old, adv=torch.randn(512))
    report = audit(update, batch, on_policy=on_policy, replay=False)
    assert (codes(report), [note.code for note in report.notes]) == (found, noted)
    assert not noted or report.notes[0].text.endswith("in which case a ratio of 1 is not to be expected")


class Q:
    """Networks that are in containers and have other names, too."""

    def __init__(self, *, is_copied: bool = True) -> None:
        torch.manual_seed(0)
        self.q = nn.Linear(4, 3)
        self.q_target = copy.deepcopy(self.q) if is_copied else self.q
        self.networks, self.by_name, self.eval_net = [self.q, self.q_target], {"slow": self.q_target}, self.q_target
        self.optim = torch.optim.Adam(self.q.parameters())

    def update(self, batch: Any) -> None:
        with torch.no_grad():
            after = self.networks[1](batch.obs_next).amax(-1)
            target = batch.rew + 0.9 * after * (~batch.terminated).float()
        loss = (self.q(batch.obs).gather(1, batch.act[:, None]).squeeze(1) - target).square().mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()


def transitions() -> Batch:
    flags = {name: torch.rand(32) < 0.2 for name in ("terminated", "truncated")}
    obs = {name: torch.randn(32, 4) for name in ("obs", "obs_next")}
    return Batch(**obs, **flags, act=torch.randint(3, (32,)), rew=torch.randn(32))


@pytest.mark.parametrize(("is_copied", "found"), [(True, []), (False, ["TB506 wrong-network", "TB508 wrong-target"])])
def test_a_copy_may_have_several_names_unless_it_is_trained(is_copied: bool, found: Any):
    algorithm = Q(is_copied=is_copied)
    assert sorted(set(codes(audit(algorithm.update, transitions(), replay=False)))) == found


@pytest.mark.parametrize(("has_next", "found"), [(False, []), (True, ["TB508 wrong-target"])])
def test_the_value_after_a_step_of_a_window_is_that_of_the_next_step(has_next: bool, found: Any):
    critic = nn.Linear(4, 1)
    optim = torch.optim.Adam(critic.parameters())

    def update(batch: Any) -> None:
        values = critic(batch.obs).squeeze(-1)
        after = values.detach() if has_next else torch.cat([values[:, 1:], values[:, -1:]], 1).detach()
        target = batch.rew + 0.9 * after * (~batch.terminated).float()
        loss = (values - target)[:, :-1].square().mean()
        optim.zero_grad()
        loss.backward()
        optim.step()

    more = {"obs_next": torch.randn(6, 5, 4)} if has_next else {}
    batch = Batch(obs=torch.randn(6, 5, 4), rew=torch.randn(6, 5), terminated=torch.rand(6, 5) < 0.2, **more)
    assert codes(audit(update, batch, replay=False)) == found


def test_a_loss_of_a_closure_is_stepped_by_its_optimizer():
    critic, actor = nn.Linear(4, 1), nn.Linear(4, 3)
    optim = torch.optim.SGD(actor.parameters(), 0.1)

    def update(batch: Any) -> None:
        fit = torch.optim.LBFGS(critic.parameters(), max_iter=3)

        def closure() -> Tensor:
            fit.zero_grad()
            loss = (critic(batch.obs).squeeze(-1) - batch.returns).square().mean()
            loss.backward()
            return loss

        fit.step(closure)
        weight = (batch.returns - critic(batch.obs).squeeze(-1).detach()).exp().clamp(max=5)
        optim.zero_grad()
        (-weight * logp(actor, batch.obs, batch.act)).mean().backward()
        optim.step()

    report = audit(update, Batch(obs=torch.randn(16, 4), act=torch.randint(3, (16,)), returns=torch.randn(16)))
    assert (report.findings, report.notes) == ([], [])


def test_both_sides_of_a_minimum_are_no_micro_batches():
    actor = nn.Linear(4, 3)
    optim = torch.optim.SGD(actor.parameters(), 0.1)

    def update(batch: Any) -> None:
        ratio = (logp(actor, batch.obs, batch.act) - batch.log_probs_then).exp()
        optim.zero_grad()
        (-torch.min(ratio * batch.adv, ratio.clamp(0.8, 1.2) * batch.adv)).mean().backward()
        optim.step()

    obs, act = torch.randn(16, 4), torch.randint(3, (16,))
    batch = Batch(obs=obs, act=act, adv=torch.randn(16), log_probs_then=logp(actor, obs, act).detach())
    assert audit(update, batch).findings == []


def test_padded_log_probabilities_that_are_flat_are_not_compared():
    torch.manual_seed(0)
    net = nn.Linear(4, 5)
    optim, obs = torch.optim.SGD(net.parameters(), 0.1), torch.randn(6, 8, 4)
    act, mask = torch.randint(5, (6, 8)), torch.arange(8) < torch.randint(2, 8, (6, 1))

    def all_logp(batch: Any) -> Tensor:
        return net(batch.obs).log_softmax(-1).gather(-1, batch.act[..., None])[..., 0]

    def update(batch: Any) -> None:
        parts = [value.flatten().split(8) for value in (all_logp(batch), batch.old_logp, batch.adv * batch.loss_mask)]
        loss = -sum(((new - old).exp() * adv).sum() for new, old, adv in zip(*parts, strict=True)) / 48
        optim.zero_grad()
        loss.backward()
        optim.step()

    batch = Batch(obs=obs, act=act, adv=torch.randn(6, 8), loss_mask=mask)
    batch.old_logp = all_logp(batch).detach() * mask
    assert audit(update, batch, replay=False).findings == []
    other = Batch(batch, old_logp=batch.old_logp.roll(1, 0) * mask)
    assert codes(audit(update, other, on_policy=True, replay=False)) == ["TB501 wrong-ratio"]


def test_an_update_of_functions_that_torch_maps_over_a_batch_is_traced():
    weights, batch = torch.randn(4, requires_grad=True), Batch(obs=torch.randn(6, 4), returns=torch.randn(6))

    def update(given: Batch) -> None:
        def loss(row: Any) -> Tensor:
            return ((row["obs"] * weights).sum() - row["returns"]) ** 2

        total = torch.func.vmap(lambda obs, returns: loss(Batch(obs=obs, returns=returns)))(given.obs, given.returns)
        total.mean().backward()

    assert not any("check-failed" in note.code for note in audit(update, batch, replay=False).notes)
