"""The audit has no findings in the examples of the docs and in Tianshou's algorithms."""

from __future__ import annotations

import runpy
from typing import Any

import gymnasium as gym
import pytest
import torch

from tests.rooms import ROOT
from typedbatch import RolloutBatch
from typedbatch.audit import Audit, audit, audit_logp, audit_reward
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.rows import repeat
from typedbatch.training import Collector

EXAMPLES = ROOT / "docs" / "examples"
pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def seed():
    torch.manual_seed(0)


def clean(update: Any, draw: Any, **settings: Any) -> None:
    """Check that three updates have no findings."""
    session = Audit(on_finding="keep", **settings)
    for _ in range(2):
        session.call(update, *draw())
    session.report.merge(audit(update, *draw(), **settings))
    assert (session.report.findings, session.report.notes) == ([], [])


@pytest.mark.quick
def test_ppo():
    example = runpy.run_path(str(EXAMPLES / "ppo.py"))
    ppo = example["PPO"]()
    collector = Collector(gym.make_vec("CartPole-v1", 4), ppo.sample, example["record"])
    clean(ppo.update, lambda: (collector.rollout(128),))


@pytest.mark.parametrize("prioritized", [False, True])
def test_dqn(prioritized):
    example = runpy.run_path(str(EXAMPLES / "dqn.py"))
    buffer = example["Buffer"](2_000, 4, alpha=0.6, beta=0.4, random_seed=0)
    dqn = example["DQN"](buffer, 0, prioritized)
    collector = Collector(gym.make_vec("CartPole-v1", 4), dqn.explore)
    collector.collect(buffer, 400)
    clean(dqn.update, lambda: buffer.sample(64))


def test_grpo():
    example = runpy.run_path(str(EXAMPLES / "grpo.py"))
    model = example["Model"]()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def sampled() -> Any:
        prompts = repeat(example["draw_prompts"](0), example["GROUP"])
        prompts.meta.update(step=0, temperature=1.0)
        return example["sample"](model, prompts)

    def draw() -> Any:
        return model, optimizer, example["prepare"](model, example["score"](sampled()))

    session = Audit(on_finding="keep")
    for _ in range(2):
        session.call(example["update"], *draw())
    session.report.merge(audit(example["update"], *draw()))
    assert session.report.findings == []
    assert audit_logp(lambda m, b: example["logp"](m, b, 1.0), model, sampled()).findings == []
    assert audit_reward(example["score"], sampled()).findings == []


def test_recurrent_ppo():
    example = runpy.run_path(str(EXAMPLES / "recurrent_ppo.py"))
    ppo = example["RecurrentPPO"](memory=True)
    state, steps = torch.zeros(example["UNITS"]), example["Steps"]
    collector = Collector(example["positions"](4), ppo.sample, example["record"], state=state, rollout=steps)
    clean(ppo.update, lambda: (collector.rollout(256),))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", ["DQN", "PPO"])
def test_algorithms_of_tianshou(name):
    pytest.importorskip("tianshou")
    from tianshou.algorithm import DQN, PPO
    from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
    from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

    from typedbatch import ActBatch, Batch, ObsBatch
    from typedbatch.bridges.tianshou import tianshou_update
    from typedbatch.errors import LeafError, SettingError

    envs = gym.make_vec("CartPole-v1", 4, vectorization_mode="sync")
    space, factory = envs.single_action_space, AdamOptimizerFactory(lr=1e-3)
    assert isinstance(space, gym.spaces.Discrete)

    def net(**settings: Any) -> Any:
        return Net(state_shape=(4,), hidden_sizes=[16], **settings)

    algorithm: Any
    if name == "DQN":
        policy: Any = DiscreteQLearningPolicy(model=net(action_shape=2), action_space=space)
        algorithm = DQN(policy=policy, optim=factory, target_update_freq=10, n_step_return_horizon=3)
    else:
        policy = DiscreteActorPolicy(
            actor=DiscreteActor(preprocess_net=net(), action_shape=2, softmax_output=False), action_space=space
        )
        algorithm = PPO(policy=policy, critic=DiscreteCritic(preprocess_net=net()), optim=factory)

    def act(batch: ObsBatch) -> ActBatch:
        out = policy(Batch(obs=batch.obs, info=Batch())).act
        return ActBatch(act=out.numpy() if isinstance(out, torch.Tensor) else out)

    collector = Collector(envs, act)
    buffer = VectorReplayBuffer[RolloutBatch](2_000, 4, random_seed=0)
    if name == "DQN":
        collector.collect(buffer, 400)
        update = tianshou_update(algorithm, buffer)
        clean(update, lambda: buffer.sample(64), skip=["wrong-ratio"])
        assert set(update(*buffer.sample(64))) == {"loss"}
        with pytest.raises(SettingError, match="DQN is off-policy; pass the buffer"):
            tianshou_update(algorithm)
    else:
        update = tianshou_update(algorithm, batch_size=64, repeat=2)
        clean(update, lambda: (collector.rollout(128),))
        assert "loss" in update(collector.rollout(128))
        with pytest.raises(SettingError, match="PPO is on-policy"):
            tianshou_update(algorithm, buffer)
    with pytest.raises(LeafError, match="an on-policy or off-policy algorithm of Tianshou is expected, got None"):
        tianshou_update(None)
