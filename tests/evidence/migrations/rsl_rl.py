"""rsl_rl's PPO and distillation on a point that is pushed to the origin, and mistakes in their storage."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

REPOSITORY, COMMIT = "leggedrobotics/rsl_rl", "c281c32e5746e75570c1a29bfa78bca0200cc5ff"
ENVS, LENGTH, ITERATIONS, EPISODE = 16, 12, 3, 20
MISTAKES: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "a misspelt name": 2
    * (("surrogate = -torch.squeeze(batch.advantages)", "surrogate = -torch.squeeze(batch.advantage)"),),
    "a batch of the stage before": (
        ("=padded_obs_trajectories[:, first_traj:last_traj]", "=self.observations[:, start:stop]"),
        ("=padded_obs_trajectories[:, trajectories]", "=self.observations[:, start:stop]"),
    ),
    "a field that is forgotten": (
        ("                    returns=returns[batch_idx],\n", ""),
        ("            returns=self.returns.flatten(0, 1),\n", ""),
    ),
    "a dimension too many": (
        ("=self.privileged_actions[i]", "=self.privileged_actions[i].unsqueeze(1)"),
        ("=self.privileged_actions[i]", "=self.privileged_actions[i].unsqueeze(1)"),
    ),
    "a row short": (
        ("= self.actions_log_prob.flatten(0, 1)", "= self.actions_log_prob[1:].flatten(0, 1)"),
        ("=self.actions_log_prob.flatten(0, 1)", "=self.actions_log_prob[1:].flatten(0, 1)"),
    ),
    "other order of the axes": (
        ("= self.actions_log_prob.flatten(0, 1)", "= self.actions_log_prob.transpose(0, 1).flatten(0, 1)"),
        ("=self.actions_log_prob.flatten(0, 1)", "=self.actions_log_prob.transpose(0, 1).flatten(0, 1)"),
    ),
}
"""Texts to replace before and after the move, by what is wrong."""


class Points:
    """Points in a plane: an action is a push, and a reward the distance from the origin, negated."""

    def __init__(self) -> None:
        self.places, self.ages = torch.randn(ENVS, 2), torch.arange(ENVS)

    def obs(self) -> TensorDict:
        """Return what the actor and the critic see."""
        return TensorDict({"policy": self.places.clone(), "age": self.ages[:, None] / EPISODE}, batch_size=[ENVS])

    def step(self, push: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Tensor]]:
        """Return observations, rewards, ends of episodes, and which of them are ends of time."""
        self.places, self.ages = self.places + 0.1 * push.clamp(-1, 1), self.ages + 1
        rewards, late = -self.places.norm(dim=-1), self.ages >= EPISODE
        dones = late | (self.places.norm(dim=-1) > 2)
        self.places = torch.where(dones[:, None], torch.randn(ENVS, 2), self.places)
        self.ages = torch.where(dones, 0, self.ages)
        return self.obs(), rewards, dones, {"time_outs": late}


def mirrored(env: Any, obs: TensorDict | None, actions: Tensor | None) -> tuple[Any, Any]:
    """Return observations and actions, and behind them those on the other side of the origin."""
    if obs is not None:
        signs = {"policy": -1, "age": 1}
        other = TensorDict({name: obs[name] * sign for name, sign in signs.items()}, batch_size=obs.batch_size)
        obs = TensorDict.cat([obs, other])
    return obs, actions if actions is None else torch.cat([actions, -actions])


def learned(kind: str, options: dict[str, Any], rnn: str | None) -> dict[str, Any]:
    """Return the losses and the weights of one algorithm."""
    torch.manual_seed(0)
    algorithms, models = import_module("rsl_rl.algorithms"), import_module("rsl_rl.models")
    env, roles = Points(), ("student", "teacher") if kind == "distillation" else ("actor", "critic")
    sets = {roles[0]: ["policy"], roles[1]: ["policy", "age"], "rnd_state": ["policy"]}
    model, more = (models.RNNModel, {"rnn_type": rnn, "rnn_hidden_dim": 8}) if rnn else (models.MLPModel, {})
    normal = {"class_name": "GaussianDistribution"}
    first = model(env.obs(), sets, roles[0], 2, (16,), distribution_cfg=normal, **more)
    second = model(env.obs(), sets, roles[1], 2 if kind == "distillation" else 1, (16,), **more)
    storage = import_module("rsl_rl.storage").RolloutStorage(kind, ENVS, LENGTH, env.obs(), [2])
    make = algorithms.Distillation if kind == "distillation" else algorithms.PPO
    algorithm, losses = make(first, second, storage, **options), []
    for _ in range(ITERATIONS):
        with torch.inference_mode():
            obs = env.obs()
            for _ in range(LENGTH):
                obs, *rest = env.step(algorithm.act(obs))
                algorithm.process_env_step(obs, *rest)
            algorithm.compute_returns(obs)
        losses.append(algorithm.update())
    weights = {
        role: {name: one.tolist() for name, one in getattr(algorithm, role).state_dict().items()} for role in roles
    }
    return {"losses": losses, "weights": weights}


def numbers(root: Path) -> dict[str, Any]:
    """Run the program, and return all losses and the weights that it has learned, of each kind of network."""
    sys.path.insert(0, str(root))
    ppo = {"num_learning_epochs": 2, "num_mini_batches": 4}
    rnd = {"num_states": 2, "num_outputs": 2, "predictor_hidden_dims": (8,), "target_hidden_dims": (8,), "weight": 0.1}
    rnd["obs_groups"] = {"rnd_state": ["policy"]}
    mirror = {"env": None, "data_augmentation_func": mirrored, "use_mirror_loss": True, "mirror_loss_coeff": 0.5}
    return {
        "mlp": learned("rl", ppo | {"rnd_cfg": rnd}, None),
        "gru": learned("rl", ppo | {"normalize_advantage_per_mini_batch": True}, "gru"),
        "lstm": learned("rl", ppo | {"num_mini_batches": 2}, "lstm"),
        "mirror loss": learned("rl", ppo | {"symmetry_cfg": mirror}, None),
        "augmentation": learned("rl", ppo | {"symmetry_cfg": mirror | {"use_data_augmentation": True}}, None),
        "distillation": learned("distillation", {}, None),
    }
