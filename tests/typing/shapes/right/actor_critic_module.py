import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn


class ActorCritic(nn.Module):
    def __init__(self, obs_dim: int, n_act: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs_dim, 32), nn.Tanh())
        self.pi = nn.Linear(32, n_act)
        self.v = nn.Linear(32, 1)

    def forward(self, obs: Float[Tensor, "N D"]) -> tuple[Float[Tensor, "N A"], Float[Tensor, "N"]]:
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)

def loss(net: ActorCritic, obs: Float[Tensor, "N D"], act: Int[Tensor, "N"], ret: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    logits, value = net(obs)
    logp = torch.distributions.Categorical(logits=logits).log_prob(act)
    adv = ret - value
    return -(logp * adv.detach()).mean() + 0.5 * F.mse_loss(value, ret)

def main() -> None:
    net = ActorCritic(4, 2)
    assert loss(net, torch.randn(6, 4), torch.randint(2, (6,)), torch.randn(6)).shape == ()


if __name__ == "__main__":
    main()
