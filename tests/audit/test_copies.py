"""Networks that follow others: states that are loaded, iterators over parameters, slow copies."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from tests.audit.programs import Q, put
from tests.audit.test_laws import says
from typedbatch.audit import audit


def test_a_state_has_tensors_of_the_module_that_loads_it():
    learner = Q()
    sampler = copy.deepcopy(learner.net)

    def update(batch: Any) -> None:
        learner.update(batch)
        state = {f"module.{name}": value for name, value in learner.net.state_dict().items()}
        sampler.load_state_dict(state, strict=False)

    says(audit(update, learner.batch()), "TB506 wrong-network", "no tensor of the module", "'module.0.weight'")


def test_a_part_of_a_state_may_be_loaded():
    learner = Q()
    sampler = copy.deepcopy(learner.net)

    def update(batch: Any) -> None:
        learner.update(batch)
        sampler.load_state_dict({"0.weight": learner.net[0].weight.detach()}, strict=False)

    assert audit(update, learner.batch()).findings == []


class Pulling(Q):
    """Q-learning with pairs of parameters that are kept."""

    def __init__(self, pairs: Any) -> None:
        super().__init__()
        self.pairs = pairs(zip(self.target.parameters(), self.net.parameters(), strict=True))

    def update(self, batch: Any) -> None:
        goal = batch.rew + self.bootstrap(batch)
        self.step(self.chosen(batch), goal)
        with torch.no_grad():
            for slow, fast in self.pairs:
                slow.lerp_(fast, 0.05)


def test_an_iterator_over_parameters_is_used_up_after_one_update():
    learner = Pulling(lambda pairs: pairs)
    says(audit(learner.update, learner.batch()), "TB506 wrong-network", "pairs iterates over parameters", "keep a list")


def test_a_list_of_parameters_is_used_again():
    learner = Pulling(list)
    assert audit(learner.update, learner.batch()).findings == []


class Both(Q):
    """An actor and a critic, each with a slow copy."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Linear(4, 2)
        self.actor_target = copy.deepcopy(self.actor)
        self.actor_optim = torch.optim.SGD(self.actor.parameters(), 0.1)

    def follow(self, slow: nn.Module, fast: nn.Module) -> None:
        with torch.no_grad():
            for one, other in zip(slow.parameters(), fast.parameters(), strict=True):
                one.lerp_(other, 0.05)

    def bootstrap(self, batch: Any) -> Tensor:
        with torch.no_grad():
            choices = self.actor_target(batch.obs_next).softmax(-1)
            return 0.99 * ~batch.terminated * (choices * self.target(batch.obs_next)).sum(-1)

    def update(self, batch: Any) -> None:
        goal = batch.rew + self.bootstrap(batch)
        self.step(self.chosen(batch), goal)
        self.actor_optim.zero_grad()
        (-(self.actor(batch.obs).softmax(-1) * self.net(batch.obs).detach()).sum(-1).mean()).backward()
        self.actor_optim.step()
        self.move()

    def move(self) -> None:
        self.follow(self.target, self.net)
        self.follow(self.actor_target, self.actor)


def test_both_slow_copies_follow():
    learner = Both()
    assert audit(learner.update, learner.batch()).findings == []
    learner.move = lambda: None  # type: ignore[method-assign]  # targets that follow at other times
    assert audit(learner.update, learner.batch()).findings == []


def test_one_slow_copy_follows_and_the_other_does_not():
    def move(self: Any) -> None:
        self.follow(self.target, self.target)
        self.follow(self.actor_target, self.actor)

    learner = put(Both(), "move", move)
    report = audit(learner.update, learner.batch())
    says(report, "TB506 wrong-network", "target stays as it is, although actor_target follows")
