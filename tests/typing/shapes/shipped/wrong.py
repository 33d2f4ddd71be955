"""Programs with a mistake about functions of this library, each below its name."""

import torch
from torch import Tensor

# ---- shipped_logp_times_reward_of_samples
from typedbatch.posttraining import Ready, token_logp
def reinforce(model: torch.nn.Module, batch: Ready) -> Tensor:
    logp = token_logp(model, batch)
    return -logp * batch.rewards  # WRONG: a value for each token, and one for each sample


def main() -> None:
    print(reinforce.__name__)

# ---- shipped_values_against_rewards_of_samples
from typedbatch.posttraining import Ready, token_values
def critic_loss(critic: torch.nn.Module, batch: Ready) -> Tensor:
    return (token_values(critic, batch) - batch.rewards) ** 2  # WRONG: a value for each token, and one for each sample


def main() -> None:
    print(critic_loss.__name__)

# ---- shipped_mean_of_groups_on_tokens
from typedbatch.posttraining import Scored
from typedbatch.rows import groups
def advantages(batch: Scored) -> Tensor:
    by_prompt = groups(batch, "uid")
    centered = batch.rewards - by_prompt.mean(batch.rewards)
    return centered * batch.loss_mask  # WRONG: the rewards are of samples, (N,), the mask of tokens


def main() -> None:
    print(advantages.__name__)

# ---- shipped_teachers_tokens_not_summed
from typedbatch.posttraining import Distillation, token_logp
def distillation(model: torch.nn.Module, batch: Distillation) -> Tensor:
    logp = token_logp(model, batch, ids=batch.teacher_ids)
    apart = batch.teacher_logp.exp() * (batch.teacher_logp - logp)
    return apart * batch.loss_mask  # WRONG: never summed over the teacher's tokens


def main() -> None:
    print(distillation.__name__)

# ---- shipped_loss_has_no_axis
from typedbatch.posttraining import Ready, aggregate
def per_sample(batch: Ready, losses: Tensor) -> Tensor:
    total = aggregate(losses, batch.loss_mask)
    return total[:, None] * batch.advantages  # WRONG: the loss is one number


def main() -> None:
    print(per_sample.__name__)

# ---- shipped_returns_converted_with_a_dimension_too_many
import numpy as np
from jaxtyping import Float
from typedbatch.conversion import to_torch_as
def returns(ret: Float[np.ndarray, "N"], value: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return to_torch_as(ret[:, None], value)  # WRONG: (N, 1) for (N,)


def main() -> None:
    print(returns.__name__)

# ---- declared_attribute_that_is_set_under_an_if
from jaxtyping import Float
class Storage:
    rewards: Float[Tensor, "T E"]
    values: Float[Tensor, "T E 1"]

    def __init__(self, kind: str, steps: int, envs: int) -> None:
        self.rewards = torch.zeros(steps, envs)
        if kind == "rl":
            self.values = torch.zeros(steps, envs, 1)

    def returns(self) -> Tensor:
        return self.rewards + self.values  # WRONG: (T, E) and (T, E, 1)


def main() -> None:
    print(Storage.__name__)

# ---- declared_variable_from_a_file
import numpy as np
from jaxtyping import Float
def load(path: str) -> Tensor:
    return torch.from_numpy(np.load(path))


def loss(pred: Float[Tensor, "N"]) -> Tensor:
    target: Float[Tensor, "N 1"] = load("target.npy")
    return (pred - target).mean()  # WRONG: (N,) and (N, 1)


def main() -> None:
    print(loss.__name__)
