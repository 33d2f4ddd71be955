"""Training as an iterator: what an epoch counts, what stops it, and how it is resumed."""

from __future__ import annotations

import io

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch.utils.tensorboard import SummaryWriter

from tests.training.environments import Count, sync, zeros
from typedbatch import ActBatch, errors
from typedbatch.buffers import PrioritizedVectorReplayBuffer, VectorReplayBuffer
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
    with pytest.raises(errors.LeafError, match=r"update\(\) gives numbers by name"):
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
    with pytest.raises(errors.SettingError, match="updates_per_step is 0 or more, a number, got -1"):
        off(VectorReplayBuffer(100, 2), lambda batch, slots: {}, updates_per_step=-1)


# ---- logging --------------------------------------------------------------------------------------------------------


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


# ---- resuming -------------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("kind", ["on", "off"])
def test_a_training_that_is_resumed_does_what_it_would_have_done(kind, tmp_path):
    def start(buffer):
        learner = Learner()
        collector = Collector(gym.make_vec("CartPole-v1", 2), learner.act)
        collector.reset(3)
        if kind == "on":
            return learner, on_policy(collector, learner.update, n_step=10, epoch_steps=20, epochs=6)
        settings = {"n_step": 4, "updates_per_step": 0.3, "batch_size": 8, "epoch_steps": 20, "epochs": 6}
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
    with pytest.raises(errors.SettingError, match=r"a state of .*'off_policy'.* is expected, got one of .*'on_policy'"):
        off(VectorReplayBuffer(100, 2), lambda batch, slots: {}).load_state_dict(state)
    with pytest.raises(errors.SettingError, match="'n_step': 20"):
        on(lambda batch: {}, n_step=20).load_state_dict(state)
    for broken in ({}, {"kind": state["kind"]}, {**state, "step": "many"}, {**state, "random": {}}):
        with pytest.raises(errors.SettingError):
            on(lambda batch: {}).load_state_dict(broken)
