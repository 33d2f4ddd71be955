"""Convolution-free VAE on flattened 28x28 digits with a beta-weighted ELBO."""
from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class VAE(nn.Module):
    def __init__(self, latent_dim: int = 16, hidden: int = 128):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(784, hidden),
            nn.SiLU(),
            nn.Linear(hidden, 2 * latent_dim),
            # wrong: nn.Linear(hidden, latent_dim),  # WRONG
        )
        self.decoder = nn.Sequential(
            nn.Linear(latent_dim, hidden),
            nn.SiLU(),
            nn.Linear(hidden, 784),
        )

    def encode(self, x: Float[Tensor, "B 784"]) -> tuple[Float[Tensor, "B Z"], Float[Tensor, "B Z"]]:
        mean, log_var = self.encoder(x).chunk(2, dim=-1)
        return mean, log_var

    def forward(
        self, x: Float[Tensor, "B 784"]
    ) -> tuple[Float[Tensor, "B 784"], Float[Tensor, "B Z"], Float[Tensor, "B Z"]]:
        mean, log_var = self.encode(x)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_var)
        return self.decoder(z), mean, log_var
        # wrong: return self.decoder(z), mean, log_var  # WRONG


def elbo(
    recon: Float[Tensor, "B 784"],
    x: Float[Tensor, "B 784"],
    mean: Float[Tensor, "B Z"],
    log_var: Float[Tensor, "B Z"],
    beta: float = 1.0,
) -> Float[Tensor, ""]:
    nll = F.binary_cross_entropy_with_logits(recon, x, reduction="none").sum(-1)
    kl = -0.5 * (1 + log_var - mean.pow(2) - log_var.exp()).sum(-1)
    return (nll + beta * kl).mean()


def main() -> None:
    torch.manual_seed(0)
    vae = VAE()
    images = torch.rand(8, 1, 28, 28)
    x = images.flatten(1)
    recon, mean, log_var = vae(x)
    print("elbo", elbo(recon, x, mean, log_var).item())


if __name__ == "__main__":
    main()
