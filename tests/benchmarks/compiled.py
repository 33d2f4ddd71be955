"""A loss of PPO under ``torch.compile``, over a dict of tensors, a record and a TensorDict."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from typedbatch import LogpOldBatch, LogpOldProtocol, checked
from typedbatch.testing import example

from .timing import Row, row

ROWS = 256
BAR = 1.1


def measure_compiled() -> list[Row]:
    """Return the row of the loss: the floor is the same function over a dict."""
    actor = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
    fields = {"obs": torch.rand(ROWS, 4), "act": torch.randint(2, (ROWS,))}
    batch = example(LogpOldBatch[Tensor], N=ROWS, fields=fields)
    columns = {name: batch[name] for name in ("obs", "act", "logp_old", "adv")}

    def of_dict(columns: Any) -> Tensor:
        logp = actor(columns["obs"]).log_softmax(-1).gather(1, columns["act"][:, None]).squeeze(1)
        return _clipped(logp - columns["logp_old"], columns["adv"])

    def of_record(batch: LogpOldProtocol[Tensor]) -> Tensor:
        logp = actor(batch.obs).log_softmax(-1).gather(1, batch.act[:, None]).squeeze(1)
        return _clipped(logp - batch.logp_old, batch.adv)

    @checked
    def under_checked(batch: LogpOldProtocol[Tensor]) -> Tensor:
        return of_record(batch)

    def of_tensordict(columns: Any) -> Tensor:  # torch keeps what it compiled with the code, so each has its own
        return of_dict(columns)

    calls = {
        "typedbatch": _compiled(of_record, batch),
        "under checked": _compiled(under_checked, batch),
        "checked, not compiled": lambda: under_checked(batch),
    }
    try:
        from tensordict import TensorDict
    except ImportError:
        pass
    else:
        calls["tensordict"] = _compiled(of_tensordict, TensorDict(columns, batch_size=[ROWS]))
    return [row(f"loss of PPO, {ROWS} rows, without gradients", _compiled(of_dict, columns), calls, BAR)]


def _clipped(difference: Tensor, adv: Tensor) -> Tensor:
    ratio = difference.exp()
    return -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()


def _compiled(loss: Callable[[Any], Tensor], batch: Any) -> Callable[[], Tensor]:
    function = torch.compile(loss, fullgraph=True)

    def call() -> Tensor:
        with torch.no_grad():
            out: Tensor = function(batch)
        return out

    return call
