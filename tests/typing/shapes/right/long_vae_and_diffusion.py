"""VAE + conv shapes + diffusion unet-ish."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from jaxtyping import Float, Int, jaxtyped
from beartype import beartype
tc = jaxtyped(typechecker=beartype)

class Encoder(nn.Module):
    def __init__(self, zdim: int) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(3, 16, 4, stride=2, padding=1)
        self.c2 = nn.Conv2d(16, 32, 4, 2, 1)
        self.fc = nn.Linear(32 * 4 * 4, 2 * zdim)
    def forward(self, x: Float[Tensor, "B 3 16 16"]) -> tuple[Float[Tensor, "B Z"], Float[Tensor, "B Z"]]:
        h = F.relu(self.c1(x))
        h = F.relu(self.c2(h))
        h = h.flatten(1)
        h = self.fc(h)
        mu, logvar = h.chunk(2, dim=1)
        return mu, logvar

class Decoder(nn.Module):
    def __init__(self, zdim: int) -> None:
        super().__init__()
        self.fc = nn.Linear(zdim, 32 * 4 * 4)
        self.net = nn.Sequential(nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(16, 3, 4, 2, 1))
    def forward(self, z: Float[Tensor, "B Z"]) -> Float[Tensor, "B 3 16 16"]:
        h = self.fc(z).view(-1, 32, 4, 4)
        return torch.sigmoid(self.net(h))

class VAE(nn.Module):
    def __init__(self, zdim: int = 6) -> None:
        super().__init__()
        self.enc, self.dec = Encoder(zdim), Decoder(zdim)
    def forward(self, x: Float[Tensor, "B 3 16 16"]):
        mu, logvar = self.enc(x)
        std = torch.exp(0.5 * logvar)
        z = mu + std * torch.randn_like(std)
        rec = self.dec(z)
        kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1)
        nll = F.binary_cross_entropy(rec, x, reduction="none").sum(dim=(1, 2, 3))
        loss = (nll + kl).mean()
        return rec, loss

@tc
def timestep_embedding(t: Int[Tensor, "B"], dim: int, max_period: int = 10000) -> Float[Tensor, "B dim"]:
    half = dim // 2
    freqs = torch.exp(-math.log(max_period) * torch.arange(half, dtype=torch.float32) / half)
    args = t[:, None].float() * freqs[None]
    emb = torch.cat([torch.cos(args), torch.sin(args)], dim=-1)
    if dim % 2:
        emb = torch.cat([emb, torch.zeros_like(emb[:, :1])], dim=-1)
    return emb

class ResBlock(nn.Module):
    def __init__(self, cin: int, cout: int, temb: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, cin)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1)
        self.t = nn.Linear(temb, 2 * cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()
    def forward(self, x: Float[Tensor, "B Cin H W"], temb: Float[Tensor, "B E"]) -> Float[Tensor, "B Cout H W"]:
        h = self.conv1(F.silu(self.norm(x)))
        scale, shift = self.t(temb)[:, :, None, None].chunk(2, dim=1)
        h = h * (1 + scale) + shift
        h = self.conv2(F.silu(h))
        return h + self.skip(x)

class SelfAttn2d(nn.Module):
    def __init__(self, c: int, heads: int = 2) -> None:
        super().__init__()
        self.qkv = nn.Conv2d(c, 3 * c, 1)
        self.heads = heads
    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        B, C, H, W = x.shape
        qkv = self.qkv(x).reshape(B, 3, self.heads, C // self.heads, H * W)
        q, k, v = qkv.unbind(1)
        w = torch.einsum("bhci,bhcj->bhij", q, k) * (C // self.heads) ** -0.5
        w = w.softmax(-1)
        o = torch.einsum("bhij,bhcj->bhci", w, v)
        return x + o.reshape(B, C, H, W)

class UNet(nn.Module):
    def __init__(self, ch: int = 8) -> None:
        super().__init__()
        self.ch = ch
        self.inc = nn.Conv2d(3, ch, 3, padding=1)
        self.d1, self.d2 = ResBlock(ch, ch, 32), ResBlock(ch, 2 * ch, 32)
        self.mid = SelfAttn2d(2 * ch)
        self.u2, self.u1 = ResBlock(4 * ch, ch, 32), ResBlock(2 * ch, ch, 32)
        self.out = nn.Conv2d(ch, 3, 3, padding=1)
    def forward(self, x: Float[Tensor, "B 3 H W"], t: Int[Tensor, "B"]) -> Float[Tensor, "B 3 H W"]:
        emb = timestep_embedding(t, 32)
        skips: list[Tensor] = []
        h = self.inc(x)
        h = self.d1(h, emb)
        skips.append(h)
        h = F.avg_pool2d(h, 2)
        h = self.d2(h, emb)
        skips.append(h)
        h = self.mid(h)
        h = torch.cat([h, skips.pop()], dim=1)
        h = self.u2(h, emb)
        h = F.interpolate(h, scale_factor=2, mode="nearest")
        h = torch.cat([h, skips.pop()], 1)
        h = self.u1(h, emb)
        return self.out(h)

def extract(a: Float[Tensor, "T"], t: Int[Tensor, "B"], x: Tensor) -> Tensor:
    out = a.gather(-1, t)
    return out.reshape(t.shape[0], *((1,) * (x.ndim - 1)))

class Diffusion:
    betas: Float[Tensor, "T"]
    abar: Float[Tensor, "T"]
    def __init__(self, T: int = 20) -> None:
        self.T = T
        self.betas = torch.linspace(1e-4, 0.02, T)
        self.abar = torch.cumprod(1 - self.betas, 0)
        self.abar_prev = F.pad(self.abar[:-1], (1, 0), value=1.0)
        self.post_var = self.betas * (1 - self.abar_prev) / (1 - self.abar)
    def loss(self, m: UNet, x0: Float[Tensor, "B 3 H W"]) -> Float[Tensor, ""]:
        t = torch.randint(0, self.T, (len(x0),))
        noise = torch.randn_like(x0)
        xt = extract(self.abar.sqrt(), t, x0) * x0 + extract((1 - self.abar).sqrt(), t, x0) * noise
        return F.mse_loss(m(xt, t), noise)
    @torch.no_grad()
    def sample(self, m: UNet, shape: tuple[int, ...]) -> Tensor:
        x = torch.randn(shape)
        for i in reversed(range(self.T)):
            t = torch.full((shape[0],), i, dtype=torch.long)
            eps = m(x, t)
            b, ab = self.betas[i], self.abar[i]
            x = (x - b / (1 - ab).sqrt() * eps) / (1 - b).sqrt()
            if i > 0:
                x = x + self.post_var[i].sqrt() * torch.randn_like(x)
        return x.clamp(-1, 1)

def main() -> None:
    torch.manual_seed(0)
    rec, loss = VAE()(torch.rand(4, 3, 16, 16))
    assert rec.shape == (4, 3, 16, 16) and loss.shape == ()
    m = UNet()
    d = Diffusion()
    l = d.loss(m, torch.randn(2, 3, 8, 8))
    l.backward()
    s = d.sample(m, (2, 3, 8, 8))
    assert s.shape == (2, 3, 8, 8)
    assert timestep_embedding(torch.arange(3), 7).shape == (3, 7)

if __name__ == "__main__":
    main()
