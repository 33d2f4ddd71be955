"""rsl_rl at c281c32e: ``PPO.process_env_step``, ``PPO.compute_returns`` and ``PPO.update``."""

from functools import partial
from typing import Any
from unittest.mock import Mock

import torch
from rsl_rl.algorithms import PPO
from rsl_rl.models import MLPModel
from rsl_rl.storage import RolloutStorage
from tensordict import TensorDict

from tests.evidence.trainers.steps import ENVS, FEATURES, GAMMA, LAM, LENGTH, reports_of, steps
from typedbatch import Batch

ACTIONS = 2
SETS = {"actor": ["policy"], "critic": ["policy"]}
OPTIONS = {"num_learning_epochs": 2, "gamma": GAMMA, "lam": LAM, "normalize_advantage_per_mini_batch": True}


def dict_of(obs: Any) -> Any:
    """Return observations as the trainer has them."""
    return TensorDict({"policy": obs}, batch_size=obs.shape[:-1])


class Ppo:
    """An agent, and the parts of its learning."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        obs, normal = dict_of(torch.zeros(ENVS, FEATURES)), {"class_name": "rsl_rl.modules.GaussianDistribution"}
        actor = MLPModel(obs, SETS, "actor", ACTIONS, (16,), distribution_cfg=normal)
        critic = MLPModel(obs, SETS, "critic", 1, (16,))
        self.ppo = PPO(actor, critic, RolloutStorage("rl", ENVS, LENGTH, obs, [ACTIONS]), **OPTIONS)

    def rollout(self) -> Any:
        """Return steps with the actions and values of the agent."""
        batch, actor = steps(), self.ppo.actor
        with torch.no_grad():
            act = actor(dict_of(batch.obs), stochastic_output=True)
            values, after = (self.ppo.critic(dict_of(obs))[..., 0] for obs in (batch.obs, batch.obs_next))
            logp, (mean, std) = actor.get_output_log_prob(act), actor.output_distribution_params
        return Batch(batch, act=act, logp_old=logp, mean=mean, std=std, v_s=values, v_s_=after)

    def graded(self, batch: Any, critic: Any = None) -> Any:
        """Return steps with returns and advantages, by a critic or by the values that the steps have."""
        own, self.ppo.critic = self.ppo.critic, critic or Mock(return_value=batch.v_s_[-1, :, None])
        for step in batch:
            transition = self.ppo.transition
            transition.observations, transition.actions = dict_of(step.obs), step.act
            transition.values, transition.actions_log_prob = step.v_s[:, None], step.logp_old
            transition.distribution_params = step.mean, step.std
            after, ended = dict_of(step.obs_next), step.terminated | step.truncated
            self.ppo.process_env_step(after, step.rew, ended, {"time_outs": step.truncated})
        self.ppo.compute_returns(after)
        self.ppo.critic, storage = own, self.ppo.storage
        storage.clear()
        return Batch(batch, adv=storage.advantages[..., 0].clone(), returns=storage.returns[..., 0].clone())

    def update(self, batch: Any) -> None:
        """Update with rows, as those of one environment."""
        rows = Batch({name: value[:, None] for name, value in batch.items()})
        storage = RolloutStorage("rl", 1, len(rows), dict_of(torch.zeros(1, FEATURES)), [ACTIONS])
        storage.observations, storage.actions, storage.values = dict_of(rows.obs), rows.act, rows.v_s[..., None]
        storage.returns, storage.advantages = rows.returns[..., None], rows.adv[..., None]
        storage.actions_log_prob, storage.distribution_params = rows.logp_old[..., None], (rows.mean, rows.std)
        self.ppo.storage = storage
        self.ppo.update()

    def grade_and_update(self, batch: Any) -> None:
        """Grade and update with the trainer's own storage."""
        self.graded(batch, self.ppo.critic)
        self.ppo.update()


reports = partial(reports_of, Ppo)
