"""Right programs about functions of this library, each below its name."""

# ---- shipped_functions_of_tokens
import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from typedbatch.conversion import to_numpy, to_torch, to_torch_as
from typedbatch.posttraining import Distillation, Ready, Scored, aggregate, token_logp, token_values
from typedbatch.rows import groups
from typedbatch.testing import example
def reinforce(model: torch.nn.Module, batch: Ready) -> Tensor:
    logp = token_logp(model, batch, temperature=1.0)
    return aggregate(-logp * batch.rewards[:, None], batch.loss_mask) * batch.advantages.mean()


def advantages(batch: Scored) -> Tensor:
    by_prompt = groups(batch, "uid")
    centered = (batch.rewards - by_prompt.mean(batch.rewards)) / (by_prompt.std(batch.rewards) + 1e-4)
    return centered[:, None] * batch.loss_mask


def rloo(batch: Scored) -> Tensor:
    baseline = groups(batch, "uid").leave_one_out(batch.rewards)
    return (batch.rewards - baseline)[:, None] * batch.loss_mask


def distillation(model: torch.nn.Module, batch: Distillation) -> Tensor:
    logp = token_logp(model, batch, temperature=1.0, ids=batch.teacher_ids)
    apart = batch.teacher_logp.exp() * (batch.teacher_logp - logp)
    return aggregate(apart.sum(-1), batch.loss_mask)


def critic_loss(critic: torch.nn.Module, batch: Ready) -> Tensor:
    return ((token_values(critic, batch) - batch.rewards[:, None]) ** 2)[batch.loss_mask].mean()


def stacked(ret: Float[np.ndarray, "N"], value: Float[Tensor, "N"]) -> Tensor:
    both = torch.stack([to_torch_as(ret, value), to_torch(ret)], -1)
    return both - to_torch_as(ret, value)[:, None] + to_torch(to_numpy(value)).mean()


class Table(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(100, width)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, position_ids: Tensor, use_cache: bool) -> Tensor:
        return self.table(input_ids)


def main() -> None:
    ready, distilled = example(Ready), example(Distillation)
    print(reinforce(Table(100), ready), advantages(ready).shape, distillation(Table(100), distilled))
    print(critic_loss(Table(1), ready), rloo.__name__, stacked(np.zeros(3), torch.zeros(3)))
