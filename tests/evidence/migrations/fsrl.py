"""FSRL's PPO with a Lagrangian multiplier: epochs of its trainer in a small environment, and mistakes in it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from torch import nn
from torch.distributions import Independent, Normal

REPOSITORY, COMMIT = "liuzuxin/FSRL", "e056fc9498d5d037869533da7cf976acf462f918"
EPOCHS = 3
MISTAKES: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "a misspelt name": (("rew_adv = batch.advs[..., 0]", "rew_adv = batch.adv[..., 0]"),) * 2,
    "a batch of the stage before": (
        ("batch.split(batch_size, merge_last=True)", "self._buffer[self._indices].split(batch_size)"),
        ("batch.split(batch_size, merge_last=True)", "self._buffer[self._indices].split(batch_size)"),
    ),
    "a field that is forgotten": (
        ("        batch.logp_old = torch.cat(old_log_prob, dim=0)\n", ""),
        ("Samples, logp_old=torch.cat(old_log_prob, dim=0))", "Samples)"),
    ),
    "a dimension too many": (("to_torch_as(ret, values[0])", "to_torch_as(ret[:, None], values[0])"),) * 2,
    "a row short": (("to_torch_as(ret, values[0])", "to_torch_as(ret[1:], values[0])"),) * 2,
    "other order of the axes": (("torch.stack(advantages, dim=-1)", "torch.stack(advantages)"),) * 2,
}
"""Texts to replace before and after the move, by what is wrong."""


class Push(gym.Env[np.ndarray, np.ndarray]):
    """A point that is paid for its speed, and pays 1 for each step beyond a place; it ends far from there, or late."""

    observation_space = gym.spaces.Box(-10, 10, (2,), np.float64)
    action_space = gym.spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, **_: Any) -> tuple[np.ndarray, dict[str, Any]]:
        self.state, self.steps = np.zeros(2), 0
        return self.state, {"cost": 0.0}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        place, speed = self.state
        speed = 0.9 * speed + 0.1 * float(action[0])
        self.state, self.steps = np.array([place + speed, speed]), self.steps + 1
        far = abs(self.state[0])
        return self.state, speed, bool(far > 2), self.steps == 40, {"cost": float(far > 1)}


class Critic(nn.Module):
    """A network with one number for each observation."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, obs: np.ndarray) -> Any:
        return self.layers(torch.as_tensor(obs, dtype=torch.float32))


class Actor(Critic):
    """The same network as the mean of a distribution."""

    def forward(self, obs: np.ndarray, state: Any = None) -> Any:
        mean = super().forward(obs)
        return (mean, torch.full_like(mean, 0.6)), state


def numbers(root: Path) -> dict[str, Any]:
    """Run the program, and return all that it logs but times, and the weights that it has learned."""
    import tianshou.utils.net.continuous
    from tianshou.env import DummyVectorEnv

    # FSRL imports these names of Tianshou 0.5, and wandb, and PPO uses none of them
    utils: Any = tianshou.utils
    utils.MultipleLRSchedulers = utils.net.continuous.Critic = nn.Module
    sys.modules["wandb"] = ModuleType("wandb")
    sys.path.insert(0, str(root))
    fsrl: Any = {name: __import__(f"fsrl.{name}", fromlist=["*"]) for name in ("data", "policy", "trainer", "utils")}
    logged: list[tuple[str | None, dict[str, float]]] = []

    class Logger(fsrl["utils"].BaseLogger):  # type: ignore[misc]
        def store(self, tab: str | None = None, **values: Any) -> None:
            super().store(tab, **values)
            kept = [name for name in values if not name.endswith(("time", "speed", "duration"))]
            logged.append((tab, {name: float(np.mean(values[name])) for name in kept}))

    np.random.seed(0)
    torch.manual_seed(0)
    nets, logger = [Actor(), Critic(), Critic()], Logger()
    optim = torch.optim.Adam([weight for net in nets for weight in net.parameters()], lr=3e-3)
    spaces = {"observation_space": Push.observation_space, "action_space": Push.action_space}
    options = {"cost_limit": 2.0, "target_kl": 9.0, "reward_normalization": True, "recompute_advantage": True, **spaces}
    dist = lambda *logits: Independent(Normal(*logits), 1)  # noqa: E731
    policy = fsrl["policy"].PPOLagrangian(nets[0], nets[1:], optim, dist, logger, value_clip=True, **options)
    buffer = fsrl["data"].fast_collector.VectorReplayBuffer(2000, 4)
    collectors = [fsrl["data"].FastCollector(policy, DummyVectorEnv([Push] * 4), rows) for rows in (buffer, None)]
    sizes = {"batch_size": 64, "step_per_epoch": 600, "episode_per_collect": 8, "episode_per_test": 4}
    quiet = {"verbose": False, "show_progress": False}
    fsrl["trainer"].OnpolicyTrainer(policy, *collectors, EPOCHS, cost_limit=2.0, logger=logger, **sizes, **quiet).run()
    weights = {
        name: tensor.tolist() for name, tensor in policy.state_dict().items() if isinstance(tensor, torch.Tensor)
    }
    return {"logged": logged, "weights": weights}
