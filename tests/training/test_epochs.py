"""Training as an iterator: what an epoch counts, what stops it, and how it is resumed."""

from __future__ import annotations

import io

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch.utils.tensorboard import SummaryWriter

import typedbatch
from tests.training.environments import MODES, Count, sync, zeros
from typedbatch import ActBatch, errors
from typedbatch.buffers import PrioritizedVectorReplayBuffer, VectorReplayBuffer
from typedbatch.buffers.state import state_of
from typedbatch.training import Collector, off_policy, on_policy


def on(update, **more):
    collector = Collector(sync(Count(3), Count(5)), zeros)
    return on_policy(collector, update, **{"n_step": 10, "epoch_steps": 25, "epochs": 3, **more})


def test_an_epoch_collects_and_updates_until_it_has_its_steps():
    sizes = []

    def update(batch):
        sizes.append(len(batch))
        return {"loss": len(sizes), "entropy": torch.tensor(2.0)}

    epochs = list(on(update))
    assert [(epoch.number, epoch.step, epoch.updates) for epoch in epochs] == [(1, 30, 3), (2, 50, 5), (3, 80, 8)]
    assert sizes == [10] * 8
    assert epochs[1].losses == {"loss": 4.5, "entropy": 2}
    assert epochs[0].collected.steps == 30
    assert sorted(epochs[0].collected.lengths.tolist()) == [3] * 5 + [5] * 3
    metrics = epochs[0].metrics()
    assert metrics["collect/return"] == epochs[0].collected.mean
    assert metrics["loss/loss"] == 2
    assert metrics["seconds/collect"] > 0


def test_the_loop_of_the_user_is_the_trainer():
    steps = []
    training = on(lambda batch: {}, before=steps.append)
    for epoch in training:
        if epoch.step >= 50:
            break
    assert steps == [0, 10, 20, 30, 40]
    assert (training.number, training.step) == (2, 50)
    assert next(training).number == 3
    assert list(training) == []


def off(buffer, update, **more):
    given = {"n_step": 2, "updates_per_step": 0.25, "batch_size": 4, "epoch_steps": 20, "epochs": 2, **more}
    return off_policy(Collector(sync(Count(3), Count(5)), zeros), buffer, update, **given)


def test_updates_follow_the_steps_and_warm_up_is_random():
    buffer = VectorReplayBuffer(100, 2)
    seen = []

    def update(batch, slots):
        assert (buffer[slots].obs == batch.obs).all()
        seen.append(len(buffer))
        return {"td": 0.5}

    first, second = off(buffer, update, warmup=10)
    assert (first.step, first.updates, second.updates) == (20, 2, 7)
    assert seen == [14, 18, 22, 26, 30, 34, 38]
    assert set(buffer.buffers[0][:5].act.tolist()) != {0}
    assert set(buffer.buffers[0][5:].act.tolist()) == {0}


def test_priorities_go_on_in_update():
    buffer = PrioritizedVectorReplayBuffer(100, 2, 0.6, 0.4)

    def update(batch, slots):
        buffer.update_weight(slots, np.full(len(slots), 9.0))
        return {"weight": batch.weight.mean()}

    epochs = list(off(buffer, update))
    assert 0 < epochs[-1].losses["weight"] <= 1
    assert buffer.weight[np.arange(100)].max() > 1


@pytest.mark.parametrize("given", [3.0, [1.0], {"loss": "low"}, {"loss": np.zeros(2)}, {"loss": torch.zeros(3)}])
def test_an_update_gives_numbers_by_name(given):
    with pytest.raises(errors.LeafError, match=r"update\(\) must return (a dict of )?numbers"):
        next(on(lambda batch: given))


def test_what_cannot_be_trained_is_refused_at_the_start():
    buffer = VectorReplayBuffer(100, 3)
    with pytest.raises(errors.SettingError, match="a ring for each of 2 environments"):
        off(buffer, lambda batch, slots: {})
    for name in ("n_step", "epoch_steps", "epochs"):
        with pytest.raises(errors.SizeError, match=f"{name} is 1 or more, got 0"):
            on(lambda batch: {}, **{name: 0})
    with pytest.raises(errors.SizeError, match="batch_size is 1 or more"):
        off(VectorReplayBuffer(100, 2), lambda batch, slots: {}, batch_size=0)
    with pytest.raises(errors.SettingError, match="updates_per_step must be a number >= 0, got -1"):
        off(VectorReplayBuffer(100, 2), lambda batch, slots: {}, updates_per_step=-1)


def steps_of(training):
    return [(epoch.step, epoch.collected.steps, epoch.updates) for epoch in training]


def learn(batch, slots):
    return {"td": 0.5}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_envs", [1, 4])
@pytest.mark.parametrize("n_step", [1, 7, 64])
def test_as_many_steps_are_made_as_were_asked_for(n_step, num_envs, mode):
    def made(**more):
        buffer = VectorReplayBuffer(2000, num_envs)
        collector = Collector(sync(*[Count(7) for _ in range(num_envs)], mode=mode), zeros)
        given = {"n_step": n_step, "updates_per_step": 0.25, "batch_size": 4, "epoch_steps": 100, **more}
        epochs = list(off_policy(collector, buffer, learn, **given))
        assert collector.steps == len(buffer) == epochs[-1].step == sum(epoch.collected.steps for epoch in epochs)
        return epochs

    for more, total in (
        ({"epochs": 3}, 300),
        ({"epochs": 3, "warmup": 250}, 300),
        ({"total_steps": 250, "warmup": 130, "learning_starts": 170}, 250),
    ):
        epochs = made(**more)
        assert [epoch.step // 100 for epoch in epochs] == [1, 2, total // 100]
        assert total <= epochs[-1].step < total + num_envs
        starts = max(more.get("warmup", 0), more.get("learning_starts", 0))
        assert (epochs[-1].step - starts) / 4 - epochs[-1].updates <= 1 + num_envs / 4
        assert 4 * epochs[-1].updates <= epochs[-1].step - starts


def test_the_policy_acts_before_the_learning_starts_and_at_random_in_the_warm_up():
    buffer = VectorReplayBuffer(300, 2)
    epochs = list(off(buffer, learn, epochs=None, total_steps=200, epoch_steps=60, warmup=60, learning_starts=100))
    assert [(epoch.step, epoch.updates, epoch.losses) for epoch in epochs] == [
        (60, 0, {}), (120, 5, {"td": 0.5}), (180, 20, {"td": 0.5}), (200, 25, {"td": 0.5}),
    ]  # fmt: skip
    assert set(buffer.buffers[0][:30].act.tolist()) == {0, 1, 2}
    assert set(buffer.buffers[0][30:100].act.tolist()) == {0}


def test_rollouts_stay_whole_and_their_sum_is_what_was_asked_for():
    for given, expected in (
        ({"epochs": 4}, [(30, 30, 3), (50, 20, 5), (80, 30, 8), (100, 20, 10)]),
        ({"epochs": None, "total_steps": 55}, [(30, 30, 3), (50, 20, 5), (60, 10, 6)]),
        ({"epochs": 4, "n_step": 40}, [(40, 40, 1), (80, 40, 2), (120, 40, 3)]),
    ):
        assert steps_of(on(lambda batch: {}, epoch_steps=25, **given)) == expected


def test_updates_that_give_nothing_are_not_counted():
    buffer = VectorReplayBuffer(100, 2)
    epochs = list(off(buffer, lambda batch, slots: None if len(buffer) < 25 else {"td": 1}))
    assert [(epoch.updates, epoch.losses) for epoch in epochs] == [(0, {}), (4, {"td": 1})]
    assert [(epoch.updates, epoch.losses) for epoch in on(lambda batch: None)] == [(0, {})] * 3


def test_returns_of_an_epoch_are_those_of_all_its_collections():
    (epoch,) = off(VectorReplayBuffer(100, 2), learn, epochs=1, epoch_steps=60)
    assert sorted(epoch.collected.lengths.tolist()) == [3] * 10 + [5] * 6
    assert epoch.collected.episodes == len(epoch.collected.returns) == 16


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"epochs": 2, "total_steps": 20}, errors.SettingError, "pass either epochs or total_steps"),
        ({"epochs": None}, errors.SettingError, "pass either epochs or total_steps"),
        ({"epochs": None, "total_steps": 0}, errors.SizeError, "total_steps is 1 or more, got 0"),
        ({"epochs": 1.5}, errors.SizeError, "epochs is a whole number, got 1.5"),
        ({"warmup": -1}, errors.SizeError, "warmup is 0 or more, got -1"),
        ({"learning_starts": "x"}, errors.SizeError, "learning_starts is a whole number, got 'x'"),
        ({"warmup": 40}, errors.SettingError, "no step is left to learn from: of 40 in all, warmup .* first 40; give"),
        ({"learning_starts": 50}, errors.SettingError, "no step is left to learn from: of 40 in all"),
        ({"updates_per_step": "x"}, errors.SettingError, "updates_per_step must be a number >= 0, got 'x'"),
        ({"updates_per_step": float("nan")}, errors.SettingError, "updates_per_step must be a number >= 0, got nan"),
        ({"updates_per_step": float("inf")}, errors.SettingError, "updates_per_step must be a number >= 0, got inf"),
        ({"updates_per_step": None}, errors.SettingError, "updates_per_step must be a number >= 0, got None"),
    ],
)
def test_numbers_that_make_no_sense(given, error, text):
    with pytest.raises(error, match=f"^{text}"):
        off(VectorReplayBuffer(100, 2), learn, **given)


def test_a_buffer_that_is_only_filled():
    buffer = VectorReplayBuffer(100, 2)
    assert steps_of(off(buffer, learn, warmup=40, updates_per_step=0)) == [(20, 20, 0), (40, 40 - 20, 0)]


def test_tensorboard_takes_the_metrics(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with SummaryWriter(tmp_path) as writer:
        list(on(lambda batch: {"loss": len(batch)}, log=writer))
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss/loss")] == [(30, 10), (50, 10), (80, 10)]
    assert "collect/return" in events.Tags()["scalars"]


def test_a_bar_shows_the_steps(capsys):
    for _ in on(lambda batch: {}, progress=True):
        pass
    assert "80/75" in capsys.readouterr().out
    for _ in on(lambda batch: {}, progress=True):
        break
    assert "30/75" in capsys.readouterr().out


class Learner:
    """A network whose actions and updates are random, by torch."""

    def __init__(self):
        torch.manual_seed(0)
        self.net = torch.nn.Linear(4, 2)
        self.optim = torch.optim.SGD(self.net.parameters(), 1e-4)

    def act(self, batch):
        logits = self.net(torch.as_tensor(batch.obs))
        return ActBatch(act=torch.distributions.Categorical(logits=logits).sample().numpy())

    def update(self, batch, slots=None):
        loss = (self.net(torch.as_tensor(batch.obs)).sum(-1) - torch.as_tensor(batch.rew)).pow(2).mean()
        self.optim.zero_grad()
        loss.backward()
        self.optim.step()
        return {"loss": loss.item()}


@pytest.mark.parametrize("kind", ["on", "off", "off, within the warm-up"])
def test_a_training_that_is_resumed_does_what_it_would_have_done(kind, tmp_path):
    def start(buffer):
        learner = Learner()
        collector = Collector(gym.make_vec("CartPole-v1", 2), learner.act)
        collector.reset(3)
        if kind == "on":
            return learner, on_policy(collector, learner.update, n_step=10, epoch_steps=20, epochs=6)
        settings = {"n_step": 4, "updates_per_step": 0.3, "batch_size": 8, "epoch_steps": 20, "epochs": 6}
        if kind != "off":
            settings |= {"warmup": 70, "learning_starts": 85}
        return learner, off_policy(collector, buffer, learner.update, **settings)

    buffer = VectorReplayBuffer(60, 2)
    learner, training = start(buffer)
    for _ in range(3):
        next(training)
    saved = io.BytesIO()
    torch.save({"training": training.state_dict(), "net": learner.net.state_dict()}, saved)
    if len(buffer):
        buffer.save_hdf5(tmp_path / "buffer")
    rest = [epoch.losses for epoch in training]

    torch.manual_seed(99)
    again = VectorReplayBuffer.load_hdf5(tmp_path / "buffer") if len(buffer) else VectorReplayBuffer(60, 2)
    learner2, training2 = start(again)
    torch.rand(5)
    saved.seek(0)
    state = torch.load(saved, weights_only=True)
    learner2.net.load_state_dict(state["net"])
    training2.load_state_dict(state["training"])
    assert training2.number == 3
    assert [epoch.losses for epoch in training2] == rest
    assert all((a == b).all() for a, b in zip(learner.net.parameters(), learner2.net.parameters(), strict=True))


def test_the_state_of_another_training_is_refused():
    state = on(lambda batch: {}).state_dict()
    with pytest.raises(errors.SettingError, match=r"expected a state of .*'off_policy'.*, got one of .*'on_policy'"):
        off(VectorReplayBuffer(100, 2), lambda batch, slots: {}).load_state_dict(state)
    with pytest.raises(errors.SettingError, match="'n_step': 20"):
        on(lambda batch: {}, n_step=20).load_state_dict(state)
    for broken in ({}, {"kind": state["kind"]}, {**state, "step": "many"}, {**state, "random": {}}):
        with pytest.raises(errors.SettingError):
            on(lambda batch: {}).load_state_dict(broken)


BROKEN = {
    "None": (None, "expected a dict from state_dict"),
    "a list": ([1], "expected a dict from state_dict.*, got list"),
    "no kind": ({}, "expected a state of .*, got one of None"),
    "a number below 0": ({"step": -5}, "the state's 'step' is 0 or more, got -5"),
    "half a number": ({"updates": 1.9}, "the state's 'updates' is a whole number, got 1.9"),
    "no number": ({"number": float("nan")}, "the state's 'number' is a whole number, got nan"),
    "text": ({"due": "x"}, "the state's 'due' must be a number >= 0 and < 1, got 'x'"),
    "updates that are due": ({"due": float("nan")}, "the state's 'due' must be a number >= 0 and < 1, got nan"),
    "a seed below 0": ({"random": {"seed": -1}}, "seed= must be a whole number >= 0 or None, got -1"),
    "no seed": ({"random": {"seed": None}}, "seed= must be a whole number >= 0"),
    "no random numbers": ({"random": None}, "the state's 'random' must be a dict, got None"),
    "a short state of torch": ({"random": {"torch": torch.get_rng_state()[:5]}}, "the random state of 'torch'"),
    "no state of torch": ({"random": {"torch": [1]}}, "the random state of 'torch' is not one that state_dict"),
    "no state of the buffer": ({"random": {"buffer": {}}}, "the random state of 'buffer' is not one that state_dict"),
    "another generator": ({"random": {"buffer": {"bit_generator": "MT19937"}}}, "the random state of 'buffer'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_state_that_is_none_changes_nothing(name):
    given, text = BROKEN[name]
    buffer = VectorReplayBuffer(100, 2)
    training = off(buffer, learn)
    next(training)
    state = training.state_dict()
    broken = given
    if isinstance(given, dict) and given:
        broken = {**state, **given}
        if isinstance(given.get("random"), dict):
            broken["random"] = {**state["random"], **given["random"]}
    counts = training.number, training.step, training.updates, training.due
    other = off(VectorReplayBuffer(100, 2, random_seed=7), learn)
    other.load_state_dict(state)
    with pytest.raises(errors.SettingError, match=f"^{text}"):
        training.load_state_dict(broken)
    assert (training.number, training.step, training.updates, training.due) == counts
    before = torch.get_rng_state(), state_of(buffer).rng.bit_generator.state
    assert (before[0] == state["random"]["torch"]).all()
    assert before[1] == state["random"]["buffer"]
    assert next(training).step == 40


def test_environments_that_fail_when_a_state_is_loaded_leave_the_training_as_it_was():
    class Broken(Count):
        def reset(self, **given):
            if given.get("seed") is not None and self.episode:
                raise OSError("no display")
            return super().reset(**given)

    training = on_policy(Collector(sync(Broken(3)), zeros), lambda batch: {}, n_step=4, epoch_steps=8, epochs=2)
    state = on(lambda batch: {}, n_step=4).state_dict()
    next(training)
    torch.rand(3)
    before = torch.get_rng_state()
    with pytest.raises(errors.EnvironmentFailedError, match="no display"):
        training.load_state_dict({**state, "step": 0})
    assert (torch.get_rng_state() == before).all()
    assert training.step == 8


def test_what_the_package_shows_is_what_it_has_for_others():
    assert dir(typedbatch.training) == typedbatch.training.__all__
