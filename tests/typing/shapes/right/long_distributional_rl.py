"""Distributional RL: C51, QR-DQN, IQN, SAC losses, replay buffer."""
from __future__ import annotations
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from typing import Optional, Iterator, NamedTuple, Sequence
from dataclasses import dataclass, field, replace, astuple
from jaxtyping import Float, Int, Bool, Float32, Float64, Int64, UInt8, jaxtyped
from beartype import beartype
tc = jaxtyped(typechecker=beartype)

ATOMS = 51
VMIN, VMAX = -10.0, 10.0
SUPPORT = torch.linspace(VMIN, VMAX, ATOMS)

@tc
def c51_project(next_p: Float[Tensor, "B 51"], rew: Float[Tensor, "B"], done: Bool[Tensor, "B"], gamma: float = 0.99) -> Float[Tensor, "B 51"]:
    dz = (VMAX - VMIN) / (ATOMS - 1)
    tz = rew[:, None] + gamma * (~done).float()[:, None] * SUPPORT
    tz = tz.clamp(VMIN, VMAX)
    b = (tz - VMIN) / dz
    lo, hi = b.floor().long(), b.ceil().long()
    lo[(hi > 0) & (lo == hi)] -= 1
    hi[(lo < ATOMS - 1) & (lo == hi)] += 1
    m = torch.zeros_like(next_p)
    off = torch.arange(0, len(rew) * ATOMS, ATOMS)[:, None].expand(-1, ATOMS)
    m.view(-1).index_add_(0, (lo + off).view(-1), (next_p * (hi - b)).view(-1))
    m.view(-1).index_add_(0, (hi + off).view(-1), (next_p * (b - lo)).view(-1))
    alt = torch.zeros_like(next_p)
    alt.scatter_add_(1, lo, next_p * (hi.float() - b))
    alt.scatter_add_(1, hi, next_p * (b - lo.float()))
    assert torch.allclose(alt, m, atol=1e-5)
    w = (1 - (tz.unsqueeze(1) - SUPPORT.view(1, -1, 1)).abs() / dz).clamp(0, 1)
    direct = (w * next_p.unsqueeze(1)).sum(2)
    assert torch.allclose(direct, m, atol=1e-4)
    return m

@tc
def c51_loss(logits: Float[Tensor, "B A 51"], act: Int[Tensor, "B"], target: Float[Tensor, "B 51"], w: Optional[Float[Tensor, "B"]] = None) -> tuple[Float[Tensor, ""], Float[Tensor, "B"]]:
    lp = F.log_softmax(logits, dim=2)
    chosen = lp[torch.arange(lp.shape[0]), act]
    same = lp.gather(1, act[:, None, None].expand(-1, 1, ATOMS)).squeeze(1)
    assert torch.equal(chosen, same)
    per = -(target * chosen).sum(-1)
    loss = per.mean() if w is None else (w * per).mean()
    return loss, per.detach()

@tc
def qr_loss(q: Float[Tensor, "B N"], target: Float[Tensor, "B M"], kappa: float = 1.0, taus: Optional[Float[Tensor, "B N"]] = None) -> Float[Tensor, "B"]:
    n = q.shape[1]
    if taus is None:
        taus = ((torch.arange(n) + 0.5) / n)[None].expand_as(q)
    td = target[:, None, :] - q[:, :, None]
    hub = torch.where(td.abs() <= kappa, 0.5 * td.pow(2), kappa * (td.abs() - 0.5 * kappa))
    rho = (taus[..., None] - (td.detach() < 0).float()).abs() * hub / kappa
    return rho.mean(2).sum(1)

class IQN(nn.Module):
    def __init__(self, obs: int, acts: int, n_cos: int = 16, width: int = 32) -> None:
        super().__init__()
        self.phi = nn.Linear(n_cos, width)
        self.f = nn.Linear(obs, width)
        self.head = nn.Linear(width, acts)
        self.register_buffer("pis", torch.arange(1, n_cos + 1).float() * torch.pi)
    def forward(self, obs: Float[Tensor, "B O"], n: int) -> tuple[Float[Tensor, "B n A"], Float[Tensor, "B n"]]:
        tau = torch.rand(obs.shape[0], n)
        cos = torch.cos(tau[..., None] * self.pis)
        phi = F.relu(self.phi(cos))
        x = F.relu(self.f(obs)).unsqueeze(1) * phi
        return self.head(x), tau

class TanhGauss(nn.Module):
    def __init__(self, o: int, a: int) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(o, 32), nn.ReLU(), nn.Linear(32, 2 * a))
    @tc
    def forward(self, o: Float[Tensor, "*B O"], deterministic: bool = False) -> tuple[Float[Tensor, "*B A"], Float[Tensor, "*B"]]:
        mu, ls = self.net(o).chunk(2, -1)
        std = ls.clamp(-5, 2).exp()
        u = mu if deterministic else mu + std * torch.randn_like(mu)
        a = u.tanh()
        lp = torch.distributions.Normal(mu, std).log_prob(u).sum(-1)
        lp = lp - (2 * (np.log(2) - u - F.softplus(-2 * u))).sum(-1)
        return a, lp

@dataclass
class Replay:
    cap: int
    obs_dim: int
    act_dim: int
    size: int = 0
    ptr: int = 0
    obs: Float32[np.ndarray, "C O"] = field(init=False)
    act: Float32[np.ndarray, "C A"] = field(init=False)
    rew: Float32[np.ndarray, "C"] = field(init=False)
    nxt: Float32[np.ndarray, "C O"] = field(init=False)
    done: Bool[np.ndarray, "C"] = field(init=False)
    prio: Float64[np.ndarray, "C"] = field(init=False)
    def __post_init__(self) -> None:
        self.obs = np.zeros((self.cap, self.obs_dim), np.float32)
        self.act = np.zeros((self.cap, self.act_dim), np.float32)
        self.rew = np.zeros(self.cap, np.float32)
        self.nxt = np.zeros_like(self.obs)
        self.done = np.zeros(self.cap, dtype=bool)
        self.prio = np.zeros(self.cap)
    def add(self, o: Float[np.ndarray, "O"], a: Float[np.ndarray, "A"], r: float, o2: Float[np.ndarray, "O"], d: bool) -> None:
        i = self.ptr
        self.obs[i], self.act[i], self.rew[i], self.nxt[i], self.done[i] = o, a, r, o2, d
        self.prio[i] = max(self.prio.max(), 1.0)
        self.ptr = (i + 1) % self.cap
        self.size = min(self.size + 1, self.cap)
    def add_batch(self, o: Float[np.ndarray, "n O"], a: Float[np.ndarray, "n A"], r: Float[np.ndarray, "n"]) -> None:
        n = len(o)
        idx = (self.ptr + np.arange(n)) % self.cap
        self.obs[idx] = o
        self.act[idx] = a
        self.rew[idx] = r
        self.ptr = (self.ptr + n) % self.cap
        self.size = min(self.size + n, self.cap)
    def sample(self, n: int, rng: np.random.Generator, alpha: float = 0.6) -> tuple[dict[str, Tensor], Int[np.ndarray, "n"], Float[np.ndarray, "n"]]:
        p = self.prio[: self.size] ** alpha
        p /= p.sum()
        idx = rng.choice(self.size, size=n, p=p)
        w = (self.size * p[idx]) ** -0.4
        w /= w.max()
        b = {k: torch.as_tensor(getattr(self, k)[idx]) for k in ("obs", "act", "rew", "nxt", "done")}
        return b, idx, w
    def n_step(self, k: int, gamma: float) -> Float[np.ndarray, "m"]:
        r = self.rew[: self.size]
        m = len(r) - k + 1
        out = np.zeros(m)
        for j in range(k):
            out += gamma ** j * r[j:j + m]
        win = np.lib.stride_tricks.sliding_window_view(r, k)
        alt = win @ (gamma ** np.arange(k))
        assert np.allclose(out, alt, atol=1e-5)
        return out

def sac_step(pi: TanhGauss, q1: nn.Module, q2: nn.Module, b: dict[str, Tensor], alpha: Float[Tensor, ""]) -> tuple[Tensor, Tensor, Tensor]:
    with torch.no_grad():
        a2, lp2 = pi(b["nxt"])
        x2 = torch.cat([b["nxt"], a2], -1)
        tq = torch.min(q1(x2), q2(x2)).squeeze(-1) - alpha * lp2
        y = b["rew"] + 0.99 * (1 - b["done"].float()) * tq
    x = torch.cat([b["obs"], b["act"]], dim=-1)
    q = torch.stack([q1(x), q2(x)]).squeeze(-1)
    ql = F.mse_loss(q, y.expand_as(q))
    a, lp = pi(b["obs"])
    qa = torch.min(*[c(torch.cat([b["obs"], a], -1)) for c in (q1, q2)])[:, 0]
    pl = (alpha * lp - qa).mean()
    return ql, pl, -(alpha.log() * (lp.detach() - a.shape[-1])).mean()

def main() -> None:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    p = torch.rand(4, 51).softmax(-1)
    t = c51_project(p, torch.rand(4), torch.tensor([True, False, False, True]))
    assert t.shape == (4, 51)
    l, per = c51_loss(torch.randn(4, 3, 51), torch.tensor([0, 1, 2, 0]), t, torch.ones(4))
    assert per.shape == (4,)
    assert qr_loss(torch.rand(4, 8), torch.rand(4, 6)).shape == (4,)
    z, tau = IQN(5, 3)(torch.rand(4, 5), 7)
    a = z.mean(1).argmax(-1)
    zq = z.gather(2, a[:, None, None].expand(-1, 7, 1))[..., 0]
    assert qr_loss(zq, torch.rand(4, 6), taus=tau).shape == (4,)
    r = Replay(20, 5, 2)
    for i in range(23):
        r.add(rng.random(5), rng.random(2), 0.5, rng.random(5), i % 5 == 0)
    r.add_batch(rng.random((3, 5)), rng.random((3, 2)), rng.random(3))
    b, idx, w = r.sample(6, rng)
    assert b["obs"].shape == (6, 5) and w.shape == (6,)
    assert r.n_step(3, 0.9).shape == (18,)
    q = [nn.Sequential(nn.Linear(7, 16), nn.ReLU(), nn.Linear(16, 1)) for _ in range(2)]
    ql, pl, al = sac_step(TanhGauss(5, 2), q[0], q[1], b, torch.tensor(0.2))
    assert ql.ndim == pl.ndim == 0

if __name__ == "__main__":
    main()
