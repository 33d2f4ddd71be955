"""CleanRL's ``ppo.py``: a run of some iterations without tyro and TensorBoard, and mistakes in it."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

REPOSITORY, COMMIT = "vwxyzjn/cleanrl", "fe8d8a03c41a7ef5b523e2e354bd01c363e786bb"
ITERATIONS = 6
MISTAKES: dict[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "a misspelt name": (("b_advantages[mb_inds]", "b_advantage[mb_inds]"), ("mb.advantages", "mb.advantage")),
    "a batch of the stage before": (
        ("pg_loss1 = -mb_advantages", "mb_advantages = advantages\n                pg_loss1 = -mb_advantages"),
        ("minibatches(batch, b_inds", "minibatches(rollout, b_inds"),
    ),
    "a field that is forgotten": (
        ("        b_returns = returns.reshape(-1)\n", ""),
        ("        returns=returns.flatten(),\n", ""),
    ),
    "a dimension too many": (
        ("b_advantages = advantages.reshape(-1)", "b_advantages = advantages.reshape(-1, 1)"),
        ("advantages=advantages.flatten()", "advantages=advantages.reshape(-1, 1)"),
    ),
    "a row short": (
        ("b_logprobs = logprobs.reshape(-1)", "b_logprobs = logprobs.reshape(-1)[args.num_envs :]"),
        ("logprobs=rollout.logprobs.flatten()", "logprobs=rollout.logprobs[1:].flatten()"),
    ),
    "other order of the axes": (
        ("b_logprobs = logprobs.reshape(-1)", "b_logprobs = logprobs.T.reshape(-1)"),
        ("logprobs=rollout.logprobs.flatten()", "logprobs=rollout.logprobs.T.flatten()"),
    ),
}
"""Texts to replace before and after the move, by what is wrong."""


def numbers(root: Path) -> dict[str, Any]:
    """Run the program, and return all that it logs, and the weights that it has learned."""
    logged: list[tuple[str, float, int]] = []

    class SummaryWriter:
        def __init__(self, _folder: str) -> None: ...

        def add_scalar(self, name: str, value: Any, step: int) -> None:
            if not name.endswith("SPS"):
                logged.append((name, float(value), step))

        def __getattr__(self, _name: str) -> Any:
            return lambda *_: None

    tyro, board = ModuleType("tyro"), ModuleType("torch.utils.tensorboard")
    tyro.cli = lambda args: args(cuda=False, total_timesteps=ITERATIONS * 512)  # type: ignore[attr-defined]
    board.SummaryWriter = SummaryWriter  # type: ignore[attr-defined]
    sys.modules.update({"tyro": tyro, "torch.utils.tensorboard": board})
    names = runpy.run_path(str(root / "cleanrl" / "ppo.py"), run_name="__main__")
    weights = {name: tensor.tolist() for name, tensor in names["agent"].state_dict().items()}
    return {"logged": logged, "weights": weights}
