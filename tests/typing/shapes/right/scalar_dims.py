import torch
from beartype import beartype
from jaxtyping import Float, jaxtyped
from torch import Tensor


@jaxtyped(typechecker=beartype)
def alpha_loss(log_alpha: Float[Tensor, ""], logp: Float[Tensor, "N"], target_entropy: float) -> Float[Tensor, ""]:
    return -(log_alpha.exp() * (logp + target_entropy).detach()).mean()

def main() -> None:
    log_alpha = torch.zeros((), requires_grad=True)
    loss = alpha_loss(log_alpha, torch.randn(7), -2.0)
    loss.backward()
    assert log_alpha.grad is not None and log_alpha.grad.shape == ()


if __name__ == "__main__":
    main()
