"""Arguments and results that have each other's names, and calls in which the other order is meant."""

from __future__ import annotations

from tests.program.helpers import found_in, write

PROGRAM = """\
from __future__ import annotations
import numpy as np
import torch
from torch import Tensor
from typedbatch import LogpOldBatch, RolloutBatch
from typedbatch.buffers import compute_episodic_return

class Args:
    gamma: float = 0.99
    gae_lambda: float = 0.95

def gae(rew: Tensor, gamma: float, gae_lambda: float) -> tuple[Tensor, Tensor]:
    adv, returns = rew * gamma, rew * gae_lambda
    return returns, adv

def kl(old: Tensor, ref: Tensor) -> Tensor:
    return (old - ref).mean()

def value_loss(v_s: Tensor, returns: Tensor) -> Tensor:
    return (v_s - returns).pow(2).mean()

def wrong(b: LogpOldBatch[Tensor], args: Args, ref_logp: Tensor) -> Tensor:
    adv, returns = gae(b.rew, gae_lambda=args.gamma, gamma=args.gae_lambda)  # SWAPPED
    x = kl(old=ref_logp, ref=b.logp_old)  # SWAPPED
    y = value_loss(b["returns"], b.v_s.detach())  # SWAPPED
    return x + y + adv.mean() + returns.mean()

def library(b: RolloutBatch, v: np.ndarray) -> np.ndarray:
    adv, returns = compute_episodic_return(b, v_s_=v)  # SWAPPED
    return adv + returns

def right(b: LogpOldBatch[Tensor], args: Args) -> Tensor:
    returns, adv = gae(b.rew, args.gamma, args.gae_lambda)
    first, second = gae(b.rew, gamma=args.gamma, gae_lambda=args.gae_lambda)
    return value_loss(b.v_s, b.returns) + returns + adv + first + second

def symmetric(old: Tensor, ref: Tensor) -> Tensor:
    return kl(old, ref) + kl(ref, old)

def reverse_kl(old: Tensor, ref: Tensor) -> Tensor:
    return kl(ref, old) + torch.zeros(())

def compared(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(expected, actual)
    np.testing.assert_allclose(desired=actual.numpy(), actual=expected.numpy())
    check_close(expected, actual)

def check_close(actual: Tensor, expected: Tensor) -> None:
    assert torch.allclose(actual, expected)

def again(old: Tensor, ref: Tensor, times: int) -> Tensor:
    return again(ref, old, times - 1) if times else old.mean()
"""


def test_names_that_cross_are_reported_and_no_others(tmp_path):
    write(tmp_path, {"program.py": PROGRAM})
    said = found_in(tmp_path)
    marked = [number for number, line in enumerate(PROGRAM.splitlines(), 1) if "# SWAPPED" in line]
    assert {one.code for one in said} == {"batch-swapped"}
    assert sorted({one.line for one in said}) == marked
    texts = [one.message for one in said]
    assert "adv is assigned the result returns, and returns the result adv; are they swapped?" in texts
    assert '"old" is given ref_logp, and "ref" logp_old; are they swapped?' in texts
