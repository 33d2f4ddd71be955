"""rsl_rl at c281c32e: ``PPO.process_env_step``, ``PPO.compute_returns`` and ``PPO.update``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from tests.evidence.trainers.standins import stand_in
from tests.evidence.trainers.steps import flat, steps
from typedbatch import Batch
from typedbatch.audit import Report, audit, audit_stage

LENGTH, ENVS, ACTIONS = 32, 2, 2
GAMMA, LAM = 0.99, 0.95


class Trainer:
    """An agent, and the parts of its learning."""

    def __init__(self) -> None:
        from rsl_rl.algorithms import PPO
        from rsl_rl.models import MLPModel
        from rsl_rl.storage import RolloutStorage

        torch.manual_seed(0)
        self.new_storage, obs = RolloutStorage, self.dict_of(torch.zeros(ENVS, 4))
        sets = {"actor": ["policy"], "critic": ["policy"]}
        normal = {"class_name": "rsl_rl.modules.GaussianDistribution"}
        actor = MLPModel(obs, sets, "actor", ACTIONS, (16,), distribution_cfg=normal)
        critic = MLPModel(obs, sets, "critic", 1, (16,))
        storage = RolloutStorage("rl", ENVS, LENGTH, obs, [ACTIONS])
        options = {"num_learning_epochs": 2, "gamma": GAMMA, "lam": LAM, "normalize_advantage_per_mini_batch": True}
        self.ppo = PPO(actor, critic, storage, **options)
        self.critic = critic

    def dict_of(self, obs: Any) -> Any:
        """Return observations as the trainer has them."""
        from tensordict import TensorDict

        return TensorDict({"policy": obs}, batch_size=obs.shape[:-1])

    def rollout(self) -> Any:
        """Return steps with the actions and values of the agent."""
        batch = steps(LENGTH, ENVS)
        with torch.no_grad():
            act = self.ppo.actor(self.dict_of(batch.obs), stochastic_output=True)
            logp = self.ppo.actor.get_output_log_prob(act)
            mean, std = self.ppo.actor.output_distribution_params
            values, after = (self.critic(self.dict_of(obs))[..., 0] for obs in (batch.obs, batch.obs_next))
        return Batch(batch, act=act, logp_old=logp, mean=mean, std=std, v_s=values, v_s_=after)

    def grade(self, batch: Any) -> Any:
        """Fill the storage with the steps of a batch, and compute advantages for the values that it has."""
        for t in range(LENGTH):
            transition = self.ppo.transition
            transition.observations, transition.actions = self.dict_of(batch.obs[t]), batch.act[t]
            transition.values, transition.actions_log_prob = batch.v_s[t, :, None], batch.logp_old[t]
            transition.distribution_params = batch.mean[t], batch.std[t]
            ended = batch.terminated[t] | batch.truncated[t]
            after = self.dict_of(batch.obs_next[t])
            self.ppo.process_env_step(after, batch.rew[t], ended, {"time_outs": batch.truncated[t]})
        self.ppo.compute_returns(after)
        self.ppo.storage.step = 0
        return self.ppo.storage

    def advantages(self, batch: Any) -> Any:
        """Return the advantages for the values that a batch has."""
        def critic(_: Any) -> Any:
            return batch.v_s_[-1, :, None]

        critic.get_hidden_state, critic.reset, critic.update_normalization = (lambda *_, **__: None,) * 3
        self.ppo.critic = critic
        advantages = self.grade(batch).advantages[..., 0].clone()
        self.ppo.critic = self.critic
        return advantages

    def update(self, batch: Any) -> None:
        """Update with the rows of a batch, as those of one environment."""
        storage = self.new_storage("rl", 1, len(batch), self.dict_of(torch.zeros(1, 4)), [ACTIONS])
        storage.observations, storage.actions = self.dict_of(batch.obs[:, None]), batch.act[:, None]
        storage.values, storage.returns = batch.v_s[:, None, None], batch.returns[:, None, None]
        storage.advantages, storage.actions_log_prob = batch.adv[:, None, None], batch.logp_old[:, None, None]
        storage.distribution_params = batch.mean[:, None], batch.std[:, None]
        self.ppo.storage = storage
        self.ppo.update()

    def grade_and_update(self, batch: Any) -> None:
        """Grade a batch in the trainer's own storage, and update."""
        self.grade(batch)
        self.ppo.update()


def reports(checkout: Path) -> Iterator[tuple[str, Report]]:
    """Yield the reports of advantages, of the update alone, and of both."""
    stand_in("git", "onnx", "onnxscript", "tensorboard", "wandb", "neptune")
    sys.path.insert(0, str(checkout))
    trainer = Trainer()
    batch = trainer.rollout()
    settings = {"gamma": GAMMA, "lam": LAM}
    yield "advantages", audit_stage(trainer.advantages, batch, like="gae", settings=settings)
    storage = trainer.grade(batch)
    graded = Batch(batch, adv=storage.advantages[..., 0].clone(), returns=storage.returns[..., 0].clone())
    yield "update", audit(trainer.update, flat(graded), on_policy=True, like="ppo_clip")
    trainer = Trainer()
    yield "advantages and update", audit(trainer.grade_and_update, trainer.rollout(), on_policy=True)
