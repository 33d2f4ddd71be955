"""Training: the examples of the docs beside single-file scripts of the same algorithm, and beside Tianshou's.

PPO learns CartPole until ten greedy episodes are 475 long in the mean, looked at every 5,000 steps or so; looking is
not counted. DQN makes a fixed number of steps. The clock is that of the CPU, without imports.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from typedbatch import RolloutBatch
from typedbatch.buffers import VectorReplayBuffer
from typedbatch.training import Collector, off_policy

from . import scripts
from .timing import clock

SEEDS = (0, 1, 2)
SOLVED, EVERY, AT_MOST = 475, 5_000, 60_000
DQN_STEPS = 8_000
DQN = {"8 environments, 2 updates after 8 steps": (8, 8, 2), "1 environment, an update after 4 steps": (1, 4, 1)}
"""Settings of each DQN: number of environments, steps between updates, and updates at a time."""
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
TIANSHOU_BAR = 0.5
Trainer = Callable[[int], Iterator[tuple[int, nn.Module]]]
"""From a seed to the steps so far and the actor, again and again."""


@dataclass(frozen=True)
class Trained:
    """The steps and times that one contender took, for each seed."""

    name: str
    steps: list[int]
    seconds: list[float]

    @property
    def median(self) -> float:
        """CPU seconds."""
        return statistics.median(self.seconds)

    @property
    def a_step(self) -> float:
        """Seconds for each step of an environment, over all seeds."""
        return sum(self.seconds) / sum(self.steps)


def example(name: str) -> Any:
    """A module of docs/examples."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)  # annotations are read there
    spec.loader.exec_module(module)
    return module


def measure_ppo() -> list[Trained]:
    """Return the rows of PPO; the script is the first."""
    ppo = example("ppo")
    trainers: dict[str, Trainer] = {
        "single file": lambda seed: scripts.ppo(seed, ppo),
        "typedbatch": lambda seed: _typed_ppo(seed, ppo),
    }
    if importlib.util.find_spec("tianshou") is not None:
        trainers["tianshou"] = lambda seed: _tianshou_ppo(seed, ppo)
    for trainer in trainers.values():
        next(trainer(0))  # what is imported and compiled the first time is not training
    runs: dict[str, list[tuple[int, float]]] = {name: [] for name in trainers}
    for seed in SEEDS:  # all of them for a seed, and then the next: each meets the same machine
        for name, trainer in trainers.items():
            runs[name].append(_to_solved(trainer, seed))
    return [Trained(name, [steps for steps, _ in found], [s for _, s in found]) for name, found in runs.items()]


def measure_dqn(settings: tuple[int, int, int]) -> list[Trained]:
    """Return the rows of DQN with some of the settings of ``DQN``; the script is the first."""
    dqn = example("dqn")
    makers: dict[str, Callable[..., Iterator[int]]] = {"single file": scripts.dqn, "typedbatch": _typed_dqn}
    for make in makers.values():
        _run_to(2_000, make(0, dqn, *settings))  # what is imported and compiled the first time is not training
    times: dict[str, list[float]] = {name: [0.0] * len(SEEDS) for name in makers}
    for number, seed in enumerate(SEEDS):
        trainers = {name: make(seed, dqn, *settings) for name, make in makers.items()}
        for steps in range(scripts.TURN, DQN_STEPS + 1, scripts.TURN):  # by turns, so that both meet the same machine
            for name, trainer in trainers.items():
                torch.manual_seed(seed)  # each creates its networks at its first step, and draws nothing later
                begun = clock()
                _run_to(steps, trainer)
                times[name][number] += clock() - begun
    return [Trained(name, [DQN_STEPS] * len(SEEDS), found) for name, found in times.items()]


def _run_to(steps: int, trainer: Iterator[int]) -> None:
    """Run a trainer until it has made a number of steps."""
    while next(trainer) < steps:
        pass


def _to_solved(trainer: Trainer, seed: int) -> tuple[int, float]:
    """Steps and CPU seconds until CartPole is solved, or ``AT_MOST`` steps are made."""
    torch.manual_seed(seed)
    taken, looked, begun = 0.0, EVERY, clock()
    for steps, actor in trainer(seed):
        if steps >= looked:
            taken += clock() - begun
            if steps >= AT_MOST or _score(actor, seed) >= SOLVED:
                return steps, taken
            looked, begun = steps + EVERY, clock()
    raise AssertionError("a trainer goes on until it is stopped")


def _score(actor: nn.Module, seed: int) -> float:
    """The mean length of ten greedy episodes."""
    envs, state = scripts.cartpoles(10), torch.get_rng_state()
    obs, _ = envs.reset(seed=seed + 1000)
    lengths, live = np.zeros(10), np.ones(10, bool)
    with torch.no_grad():
        while live.any():
            out = actor(torch.as_tensor(obs))
            logits = out[0] if isinstance(out, tuple) else out
            obs, _, terminated, truncated, _ = envs.step(logits.argmax(-1).numpy())
            lengths += live
            live &= ~(terminated | truncated)
    torch.set_rng_state(state)
    return float(lengths.mean())


def _typed_ppo(seed: int, module: Any) -> Iterator[tuple[int, nn.Module]]:
    ppo = module.PPO()
    collector = Collector(scripts.cartpoles(), ppo.sample, module.record)
    collector.reset(seed)
    while True:
        ppo.update(collector.rollout(32 * scripts.ENVS))
        yield collector.steps, ppo.actor


def _typed_dqn(seed: int, module: Any, num_envs: int, every: int, updates: int) -> Iterator[int]:
    buffer = VectorReplayBuffer[RolloutBatch](50_000, num_envs, random_seed=seed)
    dqn, uniform = module.DQN(buffer, seed, False), torch.ones(module.BATCH)
    collector = Collector(scripts.cartpoles(num_envs), dqn.explore)
    collector.reset(seed)

    def update(batch: RolloutBatch, slots: NDArray[np.intp]) -> dict[str, float]:
        return {"td": dqn.learn(dqn.process(batch, slots), uniform).mean().item()}

    training = off_policy(
        collector, buffer, update, n_step=every, updates_per_step=updates / every,
        batch_size=module.BATCH, epoch_steps=scripts.TURN, epochs=10**6, warmup=1_000, before=dqn.anneal,
    )  # fmt: skip
    for epoch in training:
        yield epoch.step


def _tianshou_ppo(seed: int, module: Any) -> Iterator[tuple[int, nn.Module]]:
    import tianshou.data as ts
    from tianshou.algorithm import PPO
    from tianshou.algorithm.modelfree.reinforce import DiscreteActorPolicy
    from tianshou.algorithm.optim import AdamOptimizerFactory
    from tianshou.env import DummyVectorEnv
    from tianshou.trainer import OnPolicyTrainerParams
    from tianshou.utils.net.common import Net
    from tianshou.utils.net.discrete import DiscreteActor, DiscreteCritic

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        space = gym.make("CartPole-v1")
        nets = [Net(state_shape=4, hidden_sizes=(64, 64), activation=nn.Tanh) for _ in range(2)]
        actor = DiscreteActor(preprocess_net=nets[0], action_shape=2, softmax_output=False)
        policy = DiscreteActorPolicy(
            actor=actor, action_space=space.action_space, observation_space=space.observation_space
        )
        algorithm: Any = PPO(
            policy=policy, critic=DiscreteCritic(preprocess_net=nets[1]),
            optim=AdamOptimizerFactory(module.LEARNING_RATE),
            eps_clip=module.CLIP, vf_coef=0.5, ent_coef=module.ENTROPY, max_grad_norm=0.5, gae_lambda=module.LAMBDA,
            gamma=module.GAMMA,
        )  # fmt: skip
        venv = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(scripts.ENVS)])
        venv.seed(seed)
        collector = ts.Collector(policy, venv, ts.VectorReplayBuffer(20_000, scripts.ENVS))
        collector.reset()
        parameters = OnPolicyTrainerParams(
            training_collector=collector, max_epochs=1_000, epoch_num_steps=32 * scripts.ENVS,
            collection_step_num_env_steps=32 * scripts.ENVS, update_step_num_repetitions=module.EPOCHS,
            batch_size=module.MINIBATCH, show_progress=False, verbose=False,
        )  # fmt: skip
        trainer = algorithm.create_trainer(parameters)
        for epoch in range(1, 1_000):
            trainer.execute_epoch()
            yield epoch * 32 * scripts.ENVS, actor
