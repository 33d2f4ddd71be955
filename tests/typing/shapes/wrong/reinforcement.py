"""Programs with a mistake about reinforcement learning, each below its name."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

# ---- c51_select_action
def chosen_dist(probs: Float[Tensor, "N A Z"], actions: Int[Tensor, "N"]) -> Float[Tensor, "N Z"]:
    return probs[actions]  # WRONG: indexes the batch axis, (N, A, Z) for (N, Z)

def main() -> None:
    print(chosen_dist(torch.zeros(4, 3, 51), torch.zeros(4, dtype=torch.long)).shape)

# ---- categorical_action_column
from torch.distributions import Categorical
def log_probs(logits: Float[Tensor, "N K"], act: Int[Tensor, "N 1"]) -> Tensor:
    dist = Categorical(logits=logits)
    return dist.log_prob(act)  # WRONG: each action against every row


def main() -> None:
    print(log_probs(torch.zeros(3, 2), torch.zeros(3, 1, dtype=torch.int64)).shape)

# ---- critic_cat_wrong_dim
def critic_input(obs: Float[Tensor, "N 11"], act: Float[Tensor, "N 3"]) -> Float[Tensor, "N 14"]:
    return torch.cat([obs, act], dim=0)  # WRONG: joins along the batch axis

def main() -> None:
    print(critic_input(torch.zeros(4, 11), torch.zeros(4, 3)))

# ---- cross_entropy_class_axis
def lm_loss(logits: Float[Tensor, "N L V"], labels: Int[Tensor, "N L"]) -> Float[Tensor, ""]:
    return F.cross_entropy(logits, labels)  # WRONG: classes must be axis 1, here that is L

def main() -> None:
    print(lm_loss(torch.zeros(2, 5, 7), torch.zeros(2, 5, dtype=torch.long)))

# ---- discriminator_bce_column
def disc_loss(logits: Float[Tensor, "N 1"], is_expert: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    return F.binary_cross_entropy_with_logits(logits, is_expert)  # WRONG: (N, 1) against (N,)

def main() -> None:
    print(disc_loss(torch.zeros(4, 1), torch.ones(4)))

# ---- distribution_not_summed
from torch.distributions import Normal
def loss(
    mu: Float[Tensor, "N A"], std: Float[Tensor, "A"], act: Float[Tensor, "N A"], adv: Float[Tensor, "N"]
) -> Tensor:
    return -(Normal(mu, std).log_prob(act) * adv).mean()  # WRONG: not summed over the actions


def main() -> None:
    print(loss(torch.zeros(3, 3), torch.ones(3), torch.zeros(3, 3), torch.ones(3)))

# ---- dqn_gather_rank
def chosen_q(q: Float[Tensor, "N A"], actions: Int[Tensor, "N"]) -> Float[Tensor, "N"]:
    return q.gather(1, actions)  # WRONG: the index has rank 1, q rank 2

def main() -> None:
    print(chosen_q(torch.zeros(4, 3), torch.zeros(4, dtype=torch.long)))

# ---- dqn_mse_keepdim
def td_loss(
    q: Float[Tensor, "N A"], actions: Int[Tensor, "N"], target: Float[Tensor, "N"]
) -> Float[Tensor, ""]:
    chosen = q.gather(1, actions.unsqueeze(1))
    return F.smooth_l1_loss(chosen, target)  # WRONG: (N, 1) against (N,)

def main() -> None:
    target = torch.arange(4.0)
    q = target.unsqueeze(1).expand(4, 3)
    print("perfect q has loss", td_loss(q, torch.zeros(4, dtype=torch.long), target))

# ---- entropy_wrong_axis
def entropy(logits: Float[Tensor, "N A"]) -> Float[Tensor, "N"]:
    logp = logits.log_softmax(dim=-1)
    return -(logp.exp() * logp).sum(dim=0)  # WRONG: sums the batch, the result is (A,)

def main() -> None:
    print(entropy(torch.zeros(8, 3)).shape, "declared (8,)")

# ---- gae_delta_bootstrap
def deltas(
    rewards: Float[Tensor, "T"],
    values: Float[Tensor, "T+1"],
    dones: Float[Tensor, "T"],
    gamma: float = 0.99,
) -> Float[Tensor, "T"]:
    next_values = values[1:]
    return rewards + gamma * next_values * (1 - dones) - values  # WRONG: T against T+1

def main() -> None:
    print(deltas(torch.zeros(5), torch.zeros(6), torch.zeros(5)))

# ---- loc_advantage_minus_value_column
def main() -> None:
    returns = torch.zeros(64)
    values = torch.zeros(64, 1)
    advantages = returns - values  # WRONG: (64,) - (64, 1) is (64, 64)
    print(advantages.shape)

# ---- loc_double_dqn_argmax
def main() -> None:
    batch, actions = 32, 6
    online_q = torch.randn(batch, actions)
    target_q = torch.randn(batch, actions)
    best = online_q.argmax(dim=1)
    next_value = target_q.gather(1, best)  # WRONG: argmax without keepdim has rank 1
    print(next_value.shape)

# ---- loc_numpy_returns_buffer
def main() -> None:
    rewards = np.zeros((128, 8), dtype=np.float32)
    last_value = np.zeros((8, 1), dtype=np.float32)
    returns = rewards + 0.99 * last_value  # WRONG: (128, 8) + (8, 1), last_value should be (8,)
    print(returns.shape)

# ---- module_called_value_column
class Critic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, obs: Float[Tensor, "N 4"]) -> Float[Tensor, "N 1"]:
        return self.net(obs)


def loss(critic: Critic, obs: Float[Tensor, "N 4"], returns: Float[Tensor, "N"]) -> Tensor:
    return (critic(obs) - returns).square().mean()  # WRONG: a column against a row


def main() -> None:
    print(loss(Critic(), torch.zeros(3, 4), torch.zeros(3)))

# ---- numpy_random_noise
from jaxtyping import Float64
def noisy(act: Float64[np.ndarray, "N 2"], rng: np.random.Generator) -> Float64[np.ndarray, "N 2"]:
    return act + rng.normal(scale=0.1, size=(len(act), 3))  # WRONG: of another width


def main() -> None:
    print(noisy(np.zeros((4, 2)), np.random.default_rng(0)))

# ---- one_minus_bool_dones
from jaxtyping import Bool
def bootstrap(
    rewards: Float[Tensor, "N"], next_v: Float[Tensor, "N"], dones: Bool[Tensor, "N"]
) -> Float[Tensor, "N"]:
    not_done = 1 - dones  # WRONG: torch refuses 1 - bool
    return rewards + 0.99 * not_done * next_v

def main() -> None:
    print(bootstrap(torch.zeros(3), torch.zeros(3), torch.zeros(3, dtype=torch.bool)))

# ---- ppo_value_loss_unsqueezed
def value_loss(values: Float[Tensor, "N 1"], returns: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    err = values - returns  # WRONG: (N, 1) - (N,) is (N, N)
    return 0.5 * (err**2).mean()

def main() -> None:
    returns = torch.arange(8.0)
    print("perfect critic has loss", value_loss(returns.unsqueeze(1), returns))

# ---- quantile_td_not_pairwise
def quantile_td(pred: Float[Tensor, "N K"], target: Float[Tensor, "N M"]) -> Float[Tensor, "N M K"]:
    return target.unsqueeze(2) - pred.unsqueeze(2)  # WRONG: (N, M, 1) - (N, K, 1), pred wants unsqueeze(1)

def main() -> None:
    print(quantile_td(torch.zeros(4, 8), torch.zeros(4, 6)).shape)

# ---- recurrent_reset_mask
def reset_hidden(hidden: Float[Tensor, "layers N H"], done: Float[Tensor, "N"]) -> Float[Tensor, "layers N H"]:
    return hidden * (1.0 - done)  # WRONG: aligns N with H, [:, None] is missing

def main() -> None:
    print(reset_hidden(torch.zeros(2, 4, 16), torch.zeros(4)).shape)

# ---- value_head_not_squeezed
class ValueHead(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, width))

    def forward(self, hidden: Float[Tensor, "N L 16"]) -> Float[Tensor, "N L"]:
        weight: Float[Tensor, "1 16"] = self.weight
        return hidden @ weight.T  # WRONG: (N, L, 1) for (N, L)

def main() -> None:
    print(ValueHead(16)(torch.zeros(2, 5, 16)).shape)
