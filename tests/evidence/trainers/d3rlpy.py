"""d3rlpy at 38c34b6f: ``DQNImpl``, ``DoubleDQNImpl`` and ``DiscreteCQLImpl``, by their ``update``."""

from collections.abc import Iterator
from typing import Any

import torch
from d3rlpy.algos import DiscreteCQLConfig, DoubleDQNConfig, DQNConfig
from d3rlpy.torch_utility import TorchMiniBatch

from tests.evidence.trainers.steps import ENVS, FEATURES, GAMMA, LENGTH, flat, steps
from typedbatch import Batch
from typedbatch.audit import Report, audit

ACTIONS = 3


def reports() -> Iterator[tuple[str, Report]]:
    """Yield the report of a second update of each algorithm, when its target network differs."""
    batch = Batch(flat(steps()), act=torch.arange(LENGTH * ENVS) % ACTIONS)
    for kind, like in ((DQNConfig, "dqn"), (DoubleDQNConfig, "double_dqn"), (DiscreteCQLConfig, "double_dqn")):
        torch.manual_seed(0)
        algo = kind(gamma=GAMMA, learning_rate=1e-2, target_update_interval=3).create(device="cpu")
        algo.create_impl((FEATURES,), ACTIONS)

        def update(batch: Any, number: int = 2, algo: Any = algo) -> None:
            """Make an update, with truncated steps that are not terminal."""
            column = {"rewards": batch.rew[:, None], "terminals": batch.terminated[:, None].float()}
            column |= {"returns_to_go": torch.zeros(len(batch), 1), "intervals": torch.ones(len(batch), 1)}
            acts = {"actions": batch.act[:, None], "next_actions": torch.zeros(len(batch), 1)}
            obs = {"observations": batch.obs, "next_observations": batch.obs_next}
            algo.impl.update(TorchMiniBatch(**obs, **acts, **column, device="cpu"), number)

        update(batch, 1)
        yield type(algo).__name__, audit(update, batch, like=like, settings={"gamma": GAMMA})
