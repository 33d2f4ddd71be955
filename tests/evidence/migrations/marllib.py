"""MARLlib's postprocessing for a critic of all agents: trajectories of our own, without Ray, and mistakes in it."""

from __future__ import annotations

import sys
from hashlib import sha256
from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import torch

REPOSITORY, COMMIT = "Replicable-MARL/MARLlib", "80e9973a430271a93c781d7422133acb1198f84b"
AGENTS, ACTIONS, OBS, STATE = ("agent_0", "agent_1", "agent_2"), 4, 3, 5
ROUNDS, STEPS = 300, (150, 120, 90)
GAE, SUMS = {"gamma": 0.99, "lambda": 0.95, "use_gae": True}, {"gamma": 0.9}
CASES: dict[str, tuple[str, dict[str, Any], bool, bool]] = {
    "state": ("mappo", GAE, True, False),
    "observations and actions": ("mappo", GAE, False, True),
    "state and actions": ("mappo", GAE, True, True),
    "value of each action": ("coma", SUMS, False, True),
    "value of each action, state": ("coma", SUMS, True, False),
    "no critic yet": ("mappo", GAE, False, True),
    "no critic yet, state": ("coma", SUMS, True, True),
}
"""Algorithm, settings, and whether the critic takes a state of the environment and the actions of opponents."""
VALUES = """        sample_batch["vf_preds"] = np.zeros_like(
            sample_batch[SampleBatch.REWARDS], dtype=np.float32)
"""
STACK = "for i in range(opponent_agents_num)],\n                "
ELSE = "            else:\n                sample_batch["
MISTAKES: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "a misspelt name": (
        ('opponent_batch[i]["actions"]', 'opponent_batch[i]["action"]'),
        ("opponent_batch[i].actions", "opponent_batch[i].action"),
    ),
    "a batch of the stage before": (
        (f"{ELSE}SampleBatch.VF_PREDS]", f'{ELSE}"central_vf_preds"]'),
        ("with_advantages(policy.config, central)", "with_advantages(policy.config, rows)"),
    ),
    "a field that is forgotten": (
        (VALUES, ""),
        (
            "opponent_actions=opponent_actions, vf_preds=vf_preds)\n\n    for",
            "opponent_actions=opponent_actions)\n\n    for",
        ),
    ),
    "a dimension too many": (
        ("axis=1)).squeeze(\n                    axis=1)", "axis=1))"),
        ("axis=1)).squeeze(axis=1)", "axis=1))"),
    ),
    "a row short": (
        ("sample_batch['obs'][:, action_mask_dim:]", "sample_batch['obs'][1:, action_mask_dim:]"),
        ("rows.obs[:, action_mask_dim:]", "rows.obs[1:, action_mask_dim:]"),
    ),
    "other order of the axes": ((f"{STACK}1)", f"{STACK}0)"), (f"{STACK}1)", f"{STACK}0)")),
}
"""Texts to replace before and after the move, by what is wrong."""


class SampleBatch(dict[str, Any]):
    """Columns with the same number of rows: what the program takes of RLlib's class."""

    CUR_OBS, REWARDS, VF_PREDS = "obs", "rewards", "vf_preds"

    def __len__(self) -> int:
        return len(self["rewards"])

    def slice(self, start: int, end: int) -> SampleBatch:
        return SampleBatch({name: column[start:end] for name, column in self.items()})

    def concat(self, other: SampleBatch) -> SampleBatch:
        return SampleBatch({name: np.concatenate([column, other[name]]) for name, column in self.items()})


def numbers(root: Path) -> dict[str, Any]:
    """Return type, shape and digest of all columns that the program returns, for each trajectory."""
    provide(root)
    program: Any = import_module("marllib.marl.algos.utils.centralized_critic")
    found = {}
    for seed, (case, ends, number) in enumerate(product(CASES, (True, False), range(ROUNDS))):
        algorithm, settings, has_state, has_actions = CASES[case]
        rng = np.random.default_rng(seed)
        mask = 0 if algorithm == "coma" else ACTIONS
        width = mask + OBS + (STATE if has_state else 0)
        batches = [collected(rng, steps, width, ends) for steps in STEPS]
        others = {name: (None, batch) for name, batch in zip(AGENTS, batches, strict=True) if name != AGENTS[1]}
        custom = {
            "framework": "torch",
            "algorithm": algorithm,
            "space_obs": {"obs": np.empty(OBS), "state": np.empty(STATE)},
            "space_act": SimpleNamespace(n=ACTIONS),
            "opp_action_in_cc": has_actions,
            "global_state_flag": has_state,
            "mask_flag": mask > 0,
            "num_agents": len(AGENTS),
            "agent_name_ls": AGENTS,
        }
        policy = SimpleNamespace(config={**settings, "model": {"custom_model_config": custom}}, device="cpu")
        if not case.startswith("no critic"):
            policy.compute_central_vf = critic(seed, ACTIONS if algorithm == "coma" else 1)
        done = program.centralized_critic_postprocessing(policy, batches[1], others)
        found[f"{case}, {ends}, {number}"] = {name: digest(column) for name, column in done.items()}
    return found


def collected(rng: np.random.Generator, steps: int, width: int, ends: bool) -> SampleBatch:
    """Return a trajectory as RLlib collects it, with the values of the agent's own critic."""
    obs, actions = rng.normal(size=(steps, width)), rng.integers(ACTIONS, size=steps)
    rewards, values = rng.normal(size=(2, steps)).astype(np.float32)
    dones = np.arange(steps) == (steps - 1 if ends else steps)
    return SampleBatch(obs=obs.astype(np.float32), actions=actions, rewards=rewards, dones=dones, vf_preds=values)


def digest(column: np.ndarray[Any, Any]) -> tuple[str, tuple[int, ...], str]:
    """Return the type, the shape and a digest of all bits of a column."""
    return str(column.dtype), column.shape, sha256(column.tobytes()).hexdigest()


def critic(seed: int, outputs: int) -> Any:
    """Return a critic with fixed weights; with several outputs, they are the values of actions."""
    torch.manual_seed(seed)
    layer = torch.nn.LazyLinear(outputs)

    def values(state: torch.Tensor, actions: torch.Tensor | None = None) -> torch.Tensor:
        parts = [] if actions is None else [torch.nn.functional.one_hot(one, ACTIONS) for one in actions.unbind(1)]
        found: torch.Tensor = layer(torch.cat([state.flatten(1), *parts], 1))
        return found if outputs > 1 else found.flatten()

    return values


def compute_advantages(
    rollout: SampleBatch,
    last_r: float,
    gamma: float,
    lambda_: float = 1.0,
    use_gae: bool = True,
    use_critic: bool = True,
) -> SampleBatch:
    """Add advantages and targets of values under RLlib's names, as it defines them."""
    rewards = rollout["rewards"]
    if use_gae:
        values = np.concatenate([rollout["vf_preds"], [last_r]])
        advantages = discounted(rewards + gamma * values[1:] - values[:-1], gamma * lambda_)
        targets = advantages + rollout["vf_preds"]
    else:
        returns = discounted(np.append(rewards, last_r), gamma)[:-1]
        advantages = returns - rollout["vf_preds"] if use_critic else returns
        targets = returns if use_critic else np.zeros_like(returns)
    rollout["advantages"], rollout["value_targets"] = advantages.astype(np.float32), targets.astype(np.float32)
    return rollout


def discounted(values: np.ndarray[Any, Any], factor: float) -> np.ndarray[Any, Any]:
    """Return the sum of each value and those after it, which count less by the factor with each step."""
    sums = np.zeros(len(values) + 1)
    for t in reversed(range(len(values))):
        sums[t] = values[t] + factor * sums[t + 1]
    return sums[:-1]


def provide(root: Path) -> None:
    """Provide what the program imports of Ray, and packages that have its files, and none of its environments."""
    names: dict[str, dict[str, Any]] = {
        "ray.rllib.evaluation.postprocessing": {"compute_advantages": compute_advantages, "adjust_nstep": None},
        "ray.rllib.policy.policy": {"Policy": object},
        "ray.rllib.policy.rnn_sequencing": {"pad_batch_to_sequences_of_same_size": None},
        "ray.rllib.policy.sample_batch": {"SampleBatch": SampleBatch},
        "ray.rllib.utils.framework": {"try_import_torch": lambda: (torch, torch.nn)},
        "ray.rllib.utils.numpy": {"convert_to_numpy": None},
        "ray.rllib.utils.torch_ops": {
            "convert_to_torch_tensor": lambda array, device: torch.as_tensor(array, device=device)
        },
    }
    for package in ("marllib", "marllib.marl", "marllib.marl.algos"):
        names[package] = {"__path__": [str(root.joinpath(*package.split(".")))]}
    for name, members in names.items():
        sys.modules[name] = ModuleType(name)
        vars(sys.modules[name]).update(members)
