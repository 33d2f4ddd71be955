"""NeRF-ish ray marching with ellipsis dims."""
from typing import Callable, Optional, Union
import torch
from torch import Tensor, nn
from jaxtyping import Float, Int, Bool, jaxtyped
from beartype import beartype
tc = jaxtyped(typechecker=beartype)

@tc
def get_rays(h: int, w: int, focal: float, c2w: Float[Tensor, "3 4"]) -> tuple[Float[Tensor, "h w 3"], Float[Tensor, "h w 3"]]:
    j, i = torch.meshgrid(torch.arange(h, dtype=torch.float32), torch.arange(w, dtype=torch.float32), indexing="ij")
    dirs = torch.stack([(i - w * 0.5) / focal, -(j - h * 0.5) / focal, -torch.ones_like(i)], -1)
    rays_d = torch.sum(dirs[..., None, :] * c2w[:3, :3], -1)
    rays_o = c2w[:3, -1].expand(rays_d.shape)
    return rays_o, rays_d

@tc
def posenc(x: Float[Tensor, "*batch d"], n: int) -> Float[Tensor, "*batch e"]:
    freqs = 2.0 ** torch.arange(n)
    xf = x[..., None, :] * freqs[:, None]
    enc = torch.cat([xf.sin(), xf.cos()], dim=-1).flatten(-2)
    return torch.cat([x, enc], dim=-1)

@tc
def sample_along(o: Float[Tensor, "*r 3"], d: Float[Tensor, "*r 3"], near: float, far: float, n: int, perturb: bool = True) -> tuple[Float[Tensor, "*r n 3"], Float[Tensor, "*r n"]]:
    t = torch.linspace(0.0, 1.0, n)
    z = near * (1 - t) + far * t
    z = z.expand(*o.shape[:-1], n)
    if perturb:
        mids = 0.5 * (z[..., 1:] + z[..., :-1])
        upper = torch.cat([mids, z[..., -1:]], -1)
        lower = torch.cat([z[..., :1], mids], -1)
        z = lower + (upper - lower) * torch.rand(z.shape)
    pts = o[..., None, :] + d[..., None, :] * z[..., :, None]
    return pts, z

@tc
def composite(rgb: Float[Tensor, "*r n 3"], sigma: Float[Tensor, "*r n"], z: Float[Tensor, "*r n"], d: Float[Tensor, "*r 3"], white: bool = False) -> dict[str, Tensor]:
    dists = z[..., 1:] - z[..., :-1]
    dists = torch.cat([dists, torch.full_like(dists[..., :1], 1e10)], -1)
    dists = dists * d.norm(dim=-1, keepdim=True)
    alpha = 1.0 - torch.exp(-torch.relu(sigma) * dists)
    trans = torch.cumprod(torch.cat([torch.ones_like(alpha[..., :1]), 1.0 - alpha + 1e-10], -1), -1)[..., :-1]
    weights = alpha * trans
    color = (weights[..., None] * rgb).sum(-2)
    depth = (weights * z).sum(-1)
    acc = weights.sum(-1)
    if white:
        color = color + (1.0 - acc[..., None])
    return {"color": color, "depth": depth, "acc": acc, "weights": weights}

@tc
def sample_pdf(bins: Float[Tensor, "*r m"], weights: Float[Tensor, "*r m1"], n: int, det: bool = False) -> Float[Tensor, "*r n"]:
    weights = weights + 1e-5
    pdf = weights / weights.sum(-1, keepdim=True)
    cdf = pdf.cumsum(-1)
    cdf = torch.cat([torch.zeros_like(cdf[..., :1]), cdf], -1)
    if det:
        u = torch.linspace(0.0, 1.0, n).expand(list(cdf.shape[:-1]) + [n])
    else:
        u = torch.rand(list(cdf.shape[:-1]) + [n])
    u = u.contiguous()
    inds = torch.searchsorted(cdf, u, right=True)
    below = torch.max(torch.zeros_like(inds), inds - 1)
    above = torch.min((cdf.shape[-1] - 1) * torch.ones_like(inds), inds)
    g = torch.stack([below, above], -1)
    shape = [*g.shape[:-1], cdf.shape[-1]]
    cdf_g = torch.gather(cdf.unsqueeze(-2).expand(shape), -1, g)
    bins_g = torch.gather(bins.unsqueeze(-2).expand(shape), -1, g)
    denom = cdf_g[..., 1] - cdf_g[..., 0]
    denom = torch.where(denom < 1e-5, torch.ones_like(denom), denom)
    t = (u - cdf_g[..., 0]) / denom
    return bins_g[..., 0] + t * (bins_g[..., 1] - bins_g[..., 0])

class Field(nn.Module):
    def __init__(self, n: int = 4, width: int = 16) -> None:
        super().__init__()
        self.n = n
        self.trunk = nn.Sequential(nn.Linear(3 + 6 * n, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.sigma = nn.Linear(width, 1)
        self.rgb = nn.Linear(width + 3, 3)
    def forward(self, x: Float[Tensor, "... 3"], d: Float[Tensor, "... 3"]) -> tuple[Float[Tensor, "... 3"], Float[Tensor, "..."]]:
        h = self.trunk(posenc(x, self.n))
        s = self.sigma(h).squeeze(-1)
        d = d / d.norm(dim=-1, keepdim=True)
        d = d[..., None, :].expand_as(x) if d.ndim < x.ndim else d
        c = torch.sigmoid(self.rgb(torch.cat([h, d], -1)))
        return c, s

def render(field: Field, o: Float[Tensor, "*r 3"], d: Float[Tensor, "*r 3"], nc: int, nf: int = 0, bg: Optional[Float[Tensor, "3"]] = None) -> Float[Tensor, "*r 3"]:
    pts, z = sample_along(o, d, 1.0, 4.0, nc)
    rgb, sigma = field(pts, d)
    out = composite(rgb, sigma, z, d)
    if nf > 0:
        mids = 0.5 * (z[..., 1:] + z[..., :-1])
        zf = sample_pdf(mids, out["weights"][..., 1:-1], nf).detach()
        z, _ = torch.sort(torch.cat([z, zf], -1), -1)
        pts = o[..., None, :] + d[..., None, :] * z[..., None]
        rgb, sigma = field(pts, d)
        out = composite(rgb, sigma, z, d)
    color = out["color"]
    if bg is not None:
        color = color + (1 - out["acc"]).unsqueeze(-1) * bg
    return color

def batchify(fn: Callable[[Tensor], Tensor], chunk: int) -> Callable[[Tensor], Tensor]:
    def inner(x: Float[Tensor, "N 3"]) -> Float[Tensor, "N c"]:
        return torch.cat([fn(x[i:i + chunk]) for i in range(0, x.shape[0], chunk)], 0)
    return inner

def main() -> None:
    torch.manual_seed(0)
    c2w = torch.cat([torch.eye(3), torch.zeros(3, 1)], 1)
    o, d = get_rays(4, 5, 3.0, c2w)
    f = Field()
    img = render(f, o, d, 8, 6, torch.ones(3))
    assert img.shape == (4, 5, 3)
    flat = render(f, o.reshape(-1, 3), d.reshape(-1, 3), 8)
    assert flat.shape == (20, 3)
    one = render(f, o[0, 0], d[0, 0], 8)
    assert one.shape == (3,)
    q = batchify(lambda x: posenc(x, 2), 7)(o.reshape(-1, 3))
    assert q.shape == (20, 15)

if __name__ == "__main__":
    main()
