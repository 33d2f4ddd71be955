"""Pairs of programs about networks, each below its name."""

from __future__ import annotations

import torch
import torch.nn as nn
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

# ---- mod_clip_logits
# CLIP: image and text towers with a symmetric InfoNCE loss.
class ImageTower(nn.Module):
    def __init__(self, out_dim: int):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.proj = nn.Linear(32, out_dim)

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, "B D"]:
        return self.proj(self.conv(images).flatten(1))


class TextTower(nn.Module):
    def __init__(self, vocab: int, width: int, out_dim: int):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.proj = nn.Linear(width, out_dim)

    def forward(self, ids: Int[Tensor, "B T"]) -> Float[Tensor, "B D"]:
        return self.proj(self.tok(ids).mean(dim=1))


class CLIP(nn.Module):
    def __init__(self, vocab: int = 64, embed_dim: int = 20):
        super().__init__()
        self.visual = ImageTower(embed_dim)
        self.text = TextTower(vocab, 24, embed_dim)
        self.logit_scale = nn.Parameter(torch.tensor(2.66))

    def forward(self, images: Float[Tensor, "B 3 H W"], ids: Int[Tensor, "B T"]) -> Float[Tensor, ""]:
        img = F.normalize(self.visual(images), dim=-1)
        txt = F.normalize(self.text(ids), dim=-1)
        logits = self.logit_scale.exp() * img @ txt.T
        # wrong: logits = self.logit_scale.exp() * img.T @ txt  # WRONG
        labels = torch.arange(images.shape[0])
        return (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2


def main() -> None:
    torch.manual_seed(0)
    model = CLIP()
    loss = model(torch.randn(6, 3, 16, 16), torch.randint(0, 64, (6, 9)))
    # wrong: loss = model(torch.randn(6, 3, 16, 16), torch.randint(0, 64, (6, 9)))  # WRONG
    loss.backward()
    print("clip loss", loss.item())

# ---- mod_edge_gnn
# Message-passing GNN over an edge list, with per-graph mean readout.
class EdgeConv(nn.Module):
    def __init__(self, node_dim: int, edge_dim: int, out_dim: int):
        super().__init__()
        self.msg = nn.Linear(2 * node_dim + edge_dim, out_dim)
        self.upd = nn.Linear(node_dim + out_dim, out_dim)

    def forward(
        self,
        x: Float[Tensor, "N D"],
        edge_index: Int[Tensor, "2 E"],
        edge_attr: Float[Tensor, "E F"],
    ) -> Float[Tensor, "N O"]:
        src, dst = edge_index
        m = torch.relu(self.msg(torch.cat([x[src], x[dst], edge_attr], dim=-1)))
        agg = torch.zeros(x.shape[0], m.shape[1]).index_add(0, dst, m)
        # wrong: agg = torch.zeros_like(m).index_add(0, dst, m)  # WRONG
        return torch.relu(self.upd(torch.cat([x, agg], dim=-1)))
        # wrong: return torch.relu(self.upd(torch.cat([x, agg], dim=-1)))  # WRONG


class GraphRegressor(nn.Module):
    def __init__(self, node_dim: int, edge_dim: int, hidden: int = 32):
        super().__init__()
        self.conv1 = EdgeConv(node_dim, edge_dim, hidden)
        self.conv2 = EdgeConv(hidden, edge_dim, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x, edge_index, edge_attr, graph_id: Int[Tensor, "N"], n_graphs: int):
        h = self.conv2(self.conv1(x, edge_index, edge_attr), edge_index, edge_attr)
        total = torch.zeros(n_graphs, h.shape[1]).index_add(0, graph_id, h)
        count = torch.bincount(graph_id, minlength=n_graphs).clamp(min=1)
        return self.out(total / count.unsqueeze(-1)).squeeze(-1)


def main() -> None:
    torch.manual_seed(0)
    N, E = 10, 24
    model = GraphRegressor(node_dim=5, edge_dim=3)
    x, edge_attr = torch.randn(N, 5), torch.randn(E, 3)
    edge_index = torch.randint(0, N, (2, E))
    graph_id = torch.arange(N) // 5
    print("pred", model(x, edge_index, edge_attr, graph_id, 2).tolist())

# ---- mod_masked_autoencoder
from einops import rearrange
# Masked autoencoder on image patches: random masking, encode, restore, decode.
def patchify(images: Float[Tensor, "B 3 H W"], p: int) -> Float[Tensor, "B T P"]:
    return rearrange(images, "b c (h p1) (w p2) -> b (h w) (p1 p2 c)", p1=p, p2=p)


def random_masking(
    x: Float[Tensor, "B T D"], ratio: float
) -> tuple[Float[Tensor, "B K D"], Float[Tensor, "B T"], Int[Tensor, "B T"]]:
    B, T, D = x.shape
    keep = int(T * (1 - ratio))
    shuffle = torch.rand(B, T).argsort(dim=1)
    restore = shuffle.argsort(dim=1)
    kept = x.gather(1, shuffle[:, :keep, None].expand(-1, -1, D))
    mask = torch.ones(B, T)
    mask[:, :keep] = 0
    return kept, mask.gather(1, restore), restore


class MAE(nn.Module):
    def __init__(self, patch: int = 4, n_patches: int = 48, dim: int = 32):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(3 * patch * patch, dim)
        self.pos = nn.Parameter(torch.randn(1, n_patches, dim) * 0.02)
        self.encoder = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True)
        self.decoder = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pred = nn.Linear(dim, 3 * patch * patch)

    def forward(self, images: Float[Tensor, "B 3 H W"]) -> Float[Tensor, ""]:
        target = patchify(images, self.patch)
        kept, mask, restore = random_masking(self.embed(target) + self.pos, 0.75)
        z = self.encoder(kept)
        B, T = mask.shape
        fill = self.mask_token.expand(B, T - z.shape[1], -1)
        full = torch.cat([z, fill], dim=1)
        full = full.gather(1, restore[:, :, None].expand(-1, -1, full.shape[-1]))
        pred = self.pred(self.decoder(full + self.pos))
        per_patch = (pred - target).pow(2).mean(dim=-1)
        # wrong: per_patch = (pred - target).pow(2).mean(dim=1)  # WRONG
        return (per_patch * mask).sum() / mask.sum()


def main() -> None:
    torch.manual_seed(0)
    mae = MAE(patch=4, n_patches=48)
    loss = mae(torch.randn(2, 3, 24, 32))
    loss.backward()
    print("mae loss", loss.item())

# ---- mod_moe_gate_weights
# Top-k mixture-of-experts feed-forward layer with a load-balancing loss.
class Router(nn.Module):
    def __init__(self, dim: int, n_experts: int, k: int):
        super().__init__()
        self.k, self.n_experts = k, n_experts
        self.gate = nn.Linear(dim, n_experts, bias=False)

    def forward(
        self, x: Float[Tensor, "N D"]
    ) -> tuple[Float[Tensor, "N K"], Int[Tensor, "N K"], Float[Tensor, ""]]:
        probs = self.gate(x).softmax(dim=-1)
        weights, experts = probs.topk(self.k, dim=-1)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        load = F.one_hot(experts, self.n_experts).float().sum(dim=1).mean(dim=0)
        importance = probs.mean(dim=0)
        aux = self.n_experts * (load * importance).sum()
        return weights, experts, aux


class MoE(nn.Module):
    def __init__(self, dim: int, hidden: int, n_experts: int = 4, k: int = 2):
        super().__init__()
        self.router = Router(dim, n_experts, k)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))
            for _ in range(n_experts)
        )

    def forward(self, x: Float[Tensor, "B T D"]) -> tuple[Float[Tensor, "B T D"], Float[Tensor, ""]]:
        flat = x.reshape(-1, x.shape[-1])
        weights, experts, aux = self.router(flat)
        out = torch.zeros_like(flat)
        for e, expert in enumerate(self.experts):
            token, slot = torch.where(experts == e)
            out[token] += weights[token, slot].unsqueeze(-1) * expert(flat[token])
            # wrong: out[token] += weights[token, slot] * expert(flat[token])  # WRONG
        return out.view_as(x), aux


def main() -> None:
    torch.manual_seed(0)
    moe = MoE(dim=16, hidden=32)
    y, aux = moe(torch.randn(3, 7, 16))
    print("out", tuple(y.shape), "aux", aux.item())

# ---- mod_nature_cnn
from jaxtyping import UInt8
# Nature-CNN encoder for stacked 84x84 Atari frames, plus a small policy head.
class NatureCNN(nn.Module):
    """Three strided convolutions: 84 -> 20 -> 9 -> 7."""

    def __init__(self, in_channels: int = 4, features: int = 512):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(in_channels, 32, kernel_size=8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, kernel_size=4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, kernel_size=3, stride=1),
            # wrong: nn.Conv2d(64, 64, kernel_size=3, stride=1, padding=1),  # WRONG
            nn.ReLU(),
            nn.Flatten(),
        )
        self.fc = nn.Linear(64 * 7 * 7, features)

    def forward(self, frames: UInt8[Tensor, "B 4 84 84"]) -> Float[Tensor, "B 512"]:
        x = frames.float() / 255.0
        return torch.relu(self.fc(self.conv(x)))
        # wrong: return torch.relu(self.fc(self.conv(x)))  # WRONG


class AtariPolicy(nn.Module):
    def __init__(self, n_actions: int):
        super().__init__()
        self.encoder = NatureCNN()
        self.pi = nn.Linear(512, n_actions)

    def forward(self, frames: UInt8[Tensor, "B 4 84 84"]) -> Float[Tensor, "B A"]:
        return self.pi(self.encoder(frames)).log_softmax(dim=-1)


def main() -> None:
    torch.manual_seed(0)
    policy = AtariPolicy(n_actions=6)
    frames = torch.randint(0, 256, (2, 4, 84, 84), dtype=torch.uint8)
    logits = policy(frames)
    action = torch.distributions.Categorical(logits=logits).sample()
    print("actions", action.tolist())

# ---- mod_pointnet_transform
# PointNet classifier with an input transform (T-Net) and global max pooling.
def shared_mlp(*dims: int) -> nn.Sequential:
    mods = []
    for i, o in zip(dims, dims[1:]):
        mods.extend([nn.Conv1d(i, o, 1), nn.BatchNorm1d(o), nn.ReLU()])
    return nn.Sequential(*mods)


class TNet(nn.Module):
    def __init__(self, k: int = 3):
        super().__init__()
        self.k = k
        self.feat = shared_mlp(k, 32, 64)
        self.fc = nn.Linear(64, k * k)

    def forward(self, pts: Float[Tensor, "B 3 P"]) -> Float[Tensor, "B 3 3"]:
        pooled = self.feat(pts).amax(dim=-1)
        mat = self.fc(pooled).view(-1, self.k, self.k)
        return mat + torch.eye(self.k)


class PointNet(nn.Module):
    def __init__(self, n_classes: int = 10):
        super().__init__()
        self.tnet = TNet(3)
        self.feat = shared_mlp(3, 64, 128)
        self.cls = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, n_classes))

    def forward(self, cloud: Float[Tensor, "B P 3"]) -> Float[Tensor, "B K"]:
        pts = cloud.transpose(1, 2)
        pts = torch.bmm(self.tnet(pts), pts)
        # wrong: pts = torch.bmm(pts, self.tnet(pts))  # WRONG
        return self.cls(self.feat(pts).amax(dim=2))


def main() -> None:
    torch.manual_seed(0)
    net = PointNet()
    cloud = torch.randn(4, 128, 3)
    logits = net(cloud)
    # wrong: logits = net(cloud)  # WRONG
    labels = torch.randint(0, 10, (4,))
    print("ce", nn.functional.cross_entropy(logits, labels).item())

# ---- mod_resnet_shortcut
# Small CIFAR ResNet with a projection shortcut in downsampling blocks.
class BasicBlock(nn.Module):
    def __init__(self, in_ch: int, out_ch: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(in_ch, out_ch, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(out_ch)
        self.conv2 = nn.Conv2d(out_ch, out_ch, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(out_ch)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or in_ch != out_ch:
            self.shortcut = nn.Sequential(
                nn.Conv2d(in_ch, out_ch, 1, stride=stride, bias=False),
                # wrong: nn.Conv2d(in_ch, out_ch, 1, bias=False),  # WRONG
                nn.BatchNorm2d(out_ch),
            )

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return F.relu(h + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, n_classes: int = 10, width: int = 16):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.layers = nn.Sequential(
            BasicBlock(width, width),
            BasicBlock(width, 2 * width, stride=2),
            BasicBlock(2 * width, 4 * width, stride=2),
        )
        self.fc = nn.Linear(4 * width, n_classes)

    def forward(self, images: Float[Tensor, "B 3 32 32"]) -> Float[Tensor, "B K"]:
        feats = self.layers(self.stem(images))
        # wrong: feats = self.layers(self.stem(images))  # WRONG
        return self.fc(feats.mean(dim=(2, 3)))


def main() -> None:
    torch.manual_seed(0)
    net = ResNet()
    logits = net(torch.randn(4, 3, 32, 32))
    # wrong: logits = net(torch.randn(4, 3, 32, 32))  # WRONG
    loss = F.cross_entropy(logits, torch.randint(0, 10, (4,)))
    loss.backward()
    print("loss", loss.item())

# ---- mod_rssm_posterior
from torch.distributions import Normal
# Dreamer-style RSSM world model: one observe step and an imagined rollout.
class RSSM(nn.Module):
    def __init__(self, deter: int, stoch: int, act_dim: int, embed: int, hidden: int = 48) -> None:
        super().__init__()
        self.inp = nn.Linear(stoch + act_dim, hidden)
        self.cell = nn.GRUCell(hidden, deter)
        self.prior = nn.Linear(deter, 2 * stoch)
        self.post = nn.Linear(deter + embed, 2 * stoch)
        self.reward = nn.Linear(deter + stoch, 1)

    @staticmethod
    def _dist(params: Float[Tensor, "B Z2"]) -> Normal:
        mean, std = params.chunk(2, dim=-1)
        return Normal(mean, F.softplus(std) + 0.1)

    def img_step(
        self, h: Float[Tensor, "B D"], z: Float[Tensor, "B S"], a: Float[Tensor, "B A"]
    ) -> tuple[Float[Tensor, "B D"], Normal]:
        x = F.elu(self.inp(torch.cat([z, a], dim=-1)))
        h = self.cell(x, h)
        return h, self._dist(self.prior(h))

    def obs_step(
        self,
        h: Float[Tensor, "B D"],
        z: Float[Tensor, "B S"],
        a: Float[Tensor, "B A"],
        e: Float[Tensor, "B E"],
    ) -> tuple[Float[Tensor, "B D"], Normal, Normal]:
        h, prior = self.img_step(h, z, a)
        post = self._dist(self.post(torch.cat([h, e], dim=-1)))
        # wrong: post = self._dist(self.post(torch.cat([z, e], dim=-1)))  # WRONG
        return h, prior, post


def main() -> None:
    torch.manual_seed(0)
    B, D, S, A, E = 3, 40, 10, 2, 24
    model = RSSM(D, S, A, E)
    h, z = torch.zeros(B, D), torch.zeros(B, S)
    h, prior, post = model.obs_step(h, z, torch.randn(B, A), torch.randn(B, E))
    # wrong: h, prior, post = model.obs_step(h, z, torch.randn(B, A), torch.randn(B, E))  # WRONG
    kl = torch.distributions.kl_divergence(post, prior).sum(-1).mean()
    z = post.rsample()
    rewards = []
    for _ in range(5):
        h, prior = model.img_step(h, z, torch.randn(B, A))
        z = prior.rsample()
        rewards.append(model.reward(torch.cat([h, z], -1)).squeeze(-1))
    print("kl", kl.item(), "return", torch.stack(rewards).sum(0).tolist())

# ---- mod_simclr_views
# SimCLR: shared encoder, projection head and the NT-Xent loss.
class SimCLR(nn.Module):
    def __init__(self, encoder: nn.Module, feat_dim: int, proj_dim: int = 16) -> None:
        super().__init__()
        self.encoder = encoder
        self.projector = nn.Sequential(
            nn.Linear(feat_dim, feat_dim), nn.ReLU(), nn.Linear(feat_dim, proj_dim)
        )

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B P"]:
        return F.normalize(self.projector(self.encoder(x)), dim=-1)


def nt_xent(
    z1: Float[Tensor, "B P"], z2: Float[Tensor, "B P"], temperature: float = 0.5
) -> Float[Tensor, ""]:
    n = z1.shape[0]
    z = torch.cat([z1, z2], dim=0)
    # wrong: z = torch.cat([z1, z2], dim=-1)  # WRONG
    sim = z @ z.t() / temperature
    self_mask = torch.eye(2 * n, dtype=torch.bool)
    sim = sim.masked_fill(self_mask, float("-inf"))
    # wrong: sim = sim.masked_fill(self_mask, float("-inf"))  # WRONG
    positives = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
    return F.cross_entropy(sim, positives)


def augment(x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
    return x.flip(-1) + 0.1 * torch.randn_like(x)


def main() -> None:
    torch.manual_seed(0)
    encoder = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
    )
    model = SimCLR(encoder, feat_dim=8 * 2 * 2)
    images = torch.rand(5, 3, 16, 16)
    loss = nt_xent(model(augment(images)), model(augment(images)))
    loss.backward()
    print("nt-xent", loss.item())

# ---- mod_unet_up
import math
# One-level diffusion U-Net with time conditioning and a DDPM noise loss.
def timestep_embedding(t: Int[Tensor, "B"], dim: int) -> Float[Tensor, "B E"]:
    half = dim // 2
    freqs = torch.exp(-math.log(10_000) * torch.arange(half) / half)
    args = t.float()[:, None] * freqs[None, :]
    return torch.cat([args.cos(), args.sin()], dim=-1)


class ResBlock(nn.Module):
    def __init__(self, in_ch: int, out_ch: int, emb_dim: int):
        super().__init__()
        self.conv1 = nn.Conv2d(in_ch, out_ch, 3, padding=1)
        self.emb = nn.Linear(emb_dim, out_ch)
        self.conv2 = nn.Conv2d(out_ch, out_ch, 3, padding=1)
        self.skip = nn.Conv2d(in_ch, out_ch, 1) if in_ch != out_ch else nn.Identity()

    def forward(self, x: Float[Tensor, "B C H W"], emb: Float[Tensor, "B E"]):
        h = F.silu(self.conv1(x)) + self.emb(emb)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(h))


class UNet(nn.Module):
    def __init__(self, channels: int = 3, base: int = 16, emb_dim: int = 32):
        super().__init__()
        self.emb_dim = emb_dim
        self.enc = ResBlock(channels, base, emb_dim)
        self.down = nn.Conv2d(base, 2 * base, 4, stride=2, padding=1)
        self.mid = ResBlock(2 * base, 2 * base, emb_dim)
        self.up = nn.ConvTranspose2d(2 * base, base, 4, stride=2, padding=1)
        # wrong: self.up = nn.ConvTranspose2d(2 * base, base, 3, stride=2, padding=1)  # WRONG
        self.dec = ResBlock(2 * base, base, emb_dim)
        self.out = nn.Conv2d(base, channels, 1)

    def forward(self, x: Float[Tensor, "B 3 32 32"], t: Int[Tensor, "B"]) -> Float[Tensor, "B 3 32 32"]:
        emb = timestep_embedding(t, self.emb_dim)
        skip = self.enc(x, emb)
        h = self.mid(self.down(skip), emb)
        h = torch.cat([self.up(h), skip], dim=1)
        # wrong: h = torch.cat([self.up(h), skip], dim=1)  # WRONG
        return self.out(self.dec(h, emb))


def main() -> None:
    torch.manual_seed(0)
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), dim=0)
    x0, noise = torch.randn(2, 2, 3, 32, 32).unbind(0)
    t = torch.randint(0, 100, (2,))
    a = alpha_bar[t].view(-1, 1, 1, 1)
    pred = UNet()(a.sqrt() * x0 + (1 - a).sqrt() * noise, t)
    # wrong: pred = UNet()(a.sqrt() * x0 + (1 - a).sqrt() * noise, t)  # WRONG
    print("loss", F.mse_loss(pred, noise).item())

# ---- mod_vae_latent_halves
# Convolution-free VAE on flattened 28x28 digits with a beta-weighted ELBO.
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

# ---- mod_vit_class_token
# ViT: patch embedding, class token, learned positions, encoder, classifier.
class PatchEmbed(nn.Module):
    def __init__(self, img_size: int, patch_size: int, in_chans: int, embed_dim: int):
        super().__init__()
        self.num_patches = (img_size // patch_size) ** 2
        self.proj = nn.Conv2d(in_chans, embed_dim, kernel_size=patch_size, stride=patch_size)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N D"]:
        return self.proj(x).flatten(2).transpose(1, 2)


class ViT(nn.Module):
    def __init__(
        self,
        img_size: int = 32,
        patch_size: int = 8,
        embed_dim: int = 48,
        depth: int = 2,
        num_heads: int = 4,
        num_classes: int = 10,
    ):
        super().__init__()
        self.patch_embed = PatchEmbed(img_size, patch_size, 3, embed_dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, embed_dim))
        n_tokens = self.patch_embed.num_patches + 1
        # wrong: n_tokens = self.patch_embed.num_patches  # WRONG
        self.pos_embed = nn.Parameter(torch.randn(1, n_tokens, embed_dim) * 0.02)
        layer = nn.TransformerEncoderLayer(embed_dim, num_heads, 4 * embed_dim, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth)
        self.head = nn.Linear(embed_dim, num_classes)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B K"]:
        tokens = self.patch_embed(x)
        cls = self.cls_token.expand(x.shape[0], -1, -1)
        tokens = torch.cat([cls, tokens], dim=1) + self.pos_embed
        return self.head(self.encoder(tokens)[:, 0])


def main() -> None:
    torch.manual_seed(0)
    model = ViT()
    logits = model(torch.randn(2, 3, 32, 32))
    # wrong: logits = model(torch.randn(2, 3, 32, 32))  # WRONG
    print("classes", logits.argmax(-1).tolist())
