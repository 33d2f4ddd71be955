"""A program of our own for the tests of the command, with the name of a repository that the tests make."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

REPOSITORY, COMMIT = "typedbatch/standin", "HEAD"
PROGRAM = """import torch

torch.manual_seed(0)
obs, returns = torch.randn(8, 3), torch.randn(8)
weights = torch.zeros(3, requires_grad=True)
for step in range(4):
    rows = torch.randperm(8)[:4]
    loss = ((obs[rows] @ weights - returns[rows]) ** 2).mean()
    (gradient,) = torch.autograd.grad(loss, weights)
    weights = (weights - 0.1 * gradient).detach().requires_grad_()
"""
MOVED = """import torch
from jaxtyping import Float
from torch import Tensor

from typedbatch import BatchRecord, validate


class Samples(BatchRecord):
    obs: Float[Tensor, "N F"]
    returns: Float[Tensor, "N"]


torch.manual_seed(0)
batch = validate(Samples(obs=torch.randn(8, 3), returns=torch.randn(8)), Samples)
weights = torch.zeros(3, requires_grad=True)
for step in range(4):
    mb = batch[torch.randperm(8)[:4]]
    loss = ((mb.obs @ weights - mb.returns) ** 2).mean()
    (gradient,) = torch.autograd.grad(loss, weights)
    weights = (weights - 0.1 * gradient).detach().requires_grad_()
"""
MISTAKES = {
    "a misspelt name": (("- returns[rows]", "- return_[rows]"), ("mb.returns", "mb.return_")),
    "a dimension too many": (("torch.randn(8)\n", "torch.randn(8, 1)\n"), ("torch.randn(8))", "torch.randn(8, 1))")),
}


def numbers(root: Path) -> dict[str, Any]:
    """Run the program, and return what it has learned."""
    return {"weights": runpy.run_path(str(root / "learn.py"))["weights"].tolist()}
