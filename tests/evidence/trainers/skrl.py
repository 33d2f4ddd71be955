"""skrl at c29ced63: ``compute_gae``, and ``PPO.record_transition`` with ``PPO.update``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from torch import nn

from tests.evidence.trainers.standins import stand_in
from tests.evidence.trainers.steps import flat, steps
from typedbatch import Batch
from typedbatch.audit import Report, audit, audit_stage

LENGTH, ENVS, ACTIONS = 32, 2, 3
GAMMA, LAM = 0.99, 0.95


class Trainer:
    """An agent, and the parts of its learning."""

    def __init__(self) -> None:
        from skrl.models.torch import CategoricalMixin, DeterministicMixin, Model

        class Policy(CategoricalMixin, Model):
            """A policy of one layer."""

            def __init__(self, **spaces: Any) -> None:
                Model.__init__(self, **spaces, device="cpu")
                CategoricalMixin.__init__(self)
                self.net = nn.Linear(4, ACTIONS)

            def compute(self, inputs: Any, _role: str) -> Any:
                return self.net(inputs["observations"]), {}

        class Value(DeterministicMixin, Model):
            """A critic of one layer."""

            def __init__(self, **spaces: Any) -> None:
                Model.__init__(self, **spaces, device="cpu")
                DeterministicMixin.__init__(self)
                self.net = nn.Linear(4, 1)

            def compute(self, inputs: Any, _role: str) -> Any:
                return self.net(inputs["observations"]), {}

        torch.manual_seed(0)
        self.spaces = {"observation_space": spaces.Box(-1, 1, (4,)), "action_space": spaces.Discrete(ACTIONS)}
        self.models = {"policy": Policy(**self.spaces), "value": Value(**self.spaces)}
        self.begin(LENGTH, ENVS)

    def begin(self, length: int, envs: int) -> None:
        """Make an agent with an empty memory."""
        from skrl.agents.torch.ppo import PPO
        from skrl.memories.torch import RandomMemory

        memory = RandomMemory(memory_size=length, num_envs=envs, device="cpu")
        options = {"learning_epochs": 2, "discount_factor": GAMMA, "gae_lambda": LAM}
        self.ppo = PPO(models=self.models, memory=memory, device="cpu", cfg=options, **self.spaces)
        self.ppo.init()
        self.ppo.training = True

    def rollout(self) -> Any:
        """Return steps with the actions and values of the agent."""
        batch = steps(LENGTH, ENVS)
        with torch.no_grad():
            act, outputs = self.ppo.policy.act({"observations": batch.obs.flatten(0, 1)})
            values, after = (self.ppo.value.act({"observations": obs})[0] for obs in (batch.obs, batch.obs_next))
        made = {"act": act, "logp_old": outputs["log_prob"], "v_s": values, "v_s_": after}
        return Batch(batch, **{name: value.reshape(LENGTH, ENVS) for name, value in made.items()})

    def record(self, batch: Any) -> None:
        """Record the steps of a batch."""
        for step in batch:
            self.ppo._current_values, self.ppo._current_log_prob = step.v_s[:, None], step.logp_old[:, None]
            ends = {"terminated": step.terminated[:, None], "truncated": step.truncated[:, None]}
            seen = {"observations": step.obs, "next_observations": step.obs_next, "states": None, "next_states": None}
            done = {"actions": step.act[:, None].float(), "rewards": step.rew[:, None], "infos": {}}
            self.ppo.record_transition(**seen, **done, **ends, timestep=0, timesteps=1)

    def update(self, batch: Any) -> None:
        """Record and update."""
        self.begin(LENGTH, ENVS)
        self.record(batch)
        self.ppo.update(timestep=0, timesteps=1)

    def update_rows(self, batch: Any) -> None:
        """Update with the rows of a batch, and with the advantages that it has, in place of those of the memory."""
        self.begin(len(batch), 1)
        columns = {
            "actions": batch.act, "log_prob": batch.logp_old, "values": batch.v_s, "returns": batch.returns,
            "advantages": batch.adv,
        }  # fmt: skip
        views = {name: value[:, None] for name, value in columns.items()}
        self.ppo.memory.tensors_view = {"observations": batch.obs, **views}
        self.ppo._current_next_observations = torch.zeros(1, 4)
        self.ppo.update(timestep=0, timesteps=1)


def gae(batch: Any) -> Any:
    """Return the returns and advantages that compute_gae has."""
    from skrl.agents.torch.ppo.ppo import compute_gae

    settings = {"discount_factor": GAMMA, "lambda_coefficient": LAM}
    read = {"rewards": batch.rew, "terminated": batch.terminated, "values": batch.v_s, "next_values": batch.v_s_[-1]}
    return compute_gae(**read, **settings)


def reports(checkout: Path) -> Iterator[tuple[str, Report]]:
    """Yield the reports of advantages before they are normalized, and of updates by a batch and by the memory."""
    stand_in("tensorboard", "wandb", "tqdm", "packaging")
    sys.path.insert(0, str(checkout))
    trainer = Trainer()
    batch = trainer.rollout()
    settings = {"gamma": GAMMA, "lam": LAM}
    yield "advantages", audit_stage(lambda one: gae(one)[0] - one.v_s, batch, like="gae", settings=settings)
    returns, adv = gae(batch)
    graded = flat(Batch(batch, adv=adv, returns=returns))
    yield "update", audit(trainer.update_rows, graded, on_policy=True, like="ppo_clip")
    trainer = Trainer()
    yield "memory and update", audit(trainer.update, trainer.rollout(), on_policy=True)
