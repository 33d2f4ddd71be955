"""PPO GAE vtrace in numpy & torch."""
from __future__ import annotations
from typing import Optional, Any
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from jaxtyping import Float, Float32, Float64, Int, Int64, Bool, jaxtyped
from beartype import beartype
from typedbatch import BatchRecord
tc = jaxtyped(typechecker=beartype)

class Rollout(BatchRecord):
    obs: Float32[np.ndarray, "T N O"]
    act: Int64[np.ndarray, "T N"]
    rew: Float32[np.ndarray, "T N"]
    done: Bool[np.ndarray, "T N"]
    logp: Float32[np.ndarray, "T N"]
    val: Float32[np.ndarray, "T N"]

class Flat(BatchRecord):
    obs: Float32[Tensor, "M O"]
    act: Int64[Tensor, "M"]
    logp: Float32[Tensor, "M"]
    adv: Float32[Tensor, "M"]
    ret: Float32[Tensor, "M"]

@tc
def gae(rew: Float[np.ndarray, "T N"], val: Float[np.ndarray, "T N"], done: Bool[np.ndarray, "T N"], last: Float[np.ndarray, "N"], gamma: float = 0.99, lam: float = 0.95) -> Float[np.ndarray, "T N"]:
    adv = np.zeros_like(rew)
    acc = np.zeros(rew.shape[1], dtype=rew.dtype)
    nxt = last
    for t in range(len(rew) - 1, -1, -1):
        nonterm = 1.0 - done[t]
        delta = rew[t] + gamma * nxt * nonterm - val[t]
        acc = delta + gamma * lam * nonterm * acc
        adv[t] = acc
        nxt = val[t]
    return adv

@tc
def vtrace(logr: Float[Tensor, "T N"], disc: Float[Tensor, "T N"], rew: Float[Tensor, "T N"], val: Float[Tensor, "T N"], boot: Float[Tensor, "N"], clip: Optional[float] = 1.0) -> tuple[Float[Tensor, "T N"], Float[Tensor, "T N"]]:
    rho = logr.exp()
    crho = rho.clamp(max=clip) if clip is not None else rho
    cs = torch.clamp(rho, max=1.0)
    vnext = torch.cat([val[1:], boot.unsqueeze(0)], dim=0)
    deltas = crho * (rew + disc * vnext - val)
    acc = torch.zeros_like(boot)
    out = []
    for t in range(disc.shape[0] - 1, -1, -1):
        acc = deltas[t] + disc[t] * cs[t] * acc
        out.append(acc)
    out.reverse()
    vs = torch.stack(out) + val
    vs_next = torch.cat([vs[1:], boot[None]], 0)
    pg = crho * (rew + disc * vs_next - val)
    return vs, pg

def collect(T: int, N: int, O: int, rng: np.random.Generator) -> Rollout:
    obs = np.empty((T, N, O), dtype=np.float32)
    act = np.zeros((T, N), dtype=np.int64)
    rew = np.zeros((T, N), np.float32)
    done = np.zeros((T, N), bool)
    o = rng.standard_normal((N, O)).astype(np.float32)
    for t in range(T):
        obs[t] = o
        act[t] = rng.integers(0, 3, size=N)
        rew[t] = o[:, 0] * (act[t] - 1)
        done[t] = rng.random(N) < 0.1
        o = np.where(done[t][:, None], rng.standard_normal((N, O)), o * 0.9).astype(np.float32)
    return Rollout(obs=obs, act=act, rew=rew, done=done, logp=np.full((T, N), -np.log(3), dtype=np.float32), val=rew * 0.5)

def flatten(r: Rollout, last: Float32[np.ndarray, "N"]) -> Flat:
    adv = gae(r.rew, r.val, r.done, last)
    ret = adv + r.val
    def f(x: NDArray[Any]) -> Tensor:
        return torch.as_tensor(x.reshape(-1, *x.shape[2:]))
    a = f(adv)
    a = (a - a.mean()) / (a.std() + 1e-8)
    return Flat(obs=f(r.obs), act=f(r.act), logp=f(r.logp), adv=a, ret=f(ret))

class Policy(torch.nn.Module):
    def __init__(self, o: int, n: int) -> None:
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(o, 16), torch.nn.Tanh())
        self.pi = torch.nn.Linear(16, n)
        self.v = torch.nn.Linear(16, 1)
    def forward(self, obs: Float[Tensor, "*B O"]) -> tuple[Float[Tensor, "*B A"], Float[Tensor, "*B"]]:
        h = self.body(obs)
        return self.pi(h), self.v(h).squeeze(-1)

def ppo_loss(p: Policy, b: Flat, clip: float = 0.2) -> Float[Tensor, ""]:
    logits, v = p(b.obs)
    dist = torch.distributions.Categorical(logits=logits)
    logp = dist.log_prob(b.act)
    ratio = (logp - b.logp).exp()
    s1 = ratio * b.adv
    s2 = ratio.clamp(1 - clip, 1 + clip) * b.adv
    pl = -torch.min(s1, s2).mean()
    vl = 0.5 * ((v - b.ret) ** 2).mean()
    ent = dist.entropy().mean()
    lp2 = torch.log_softmax(logits, -1).gather(1, b.act[:, None]).squeeze(1)
    assert torch.allclose(lp2, logp, atol=1e-5)
    return pl + vl - 0.01 * ent

def main() -> None:
    rng = np.random.default_rng(0)
    torch.manual_seed(0)
    r = collect(12, 4, 5, rng)
    p = Policy(5, 3)
    opt = torch.optim.Adam(p.parameters(), 1e-2)
    flat = flatten(r, np.zeros(4, np.float32))
    assert flat.adv.shape == (48,)
    n = len(flat)
    for epoch in range(2):
        perm = torch.randperm(n)
        for s in range(0, n, 20):
            mb = flat[perm[s:s + 20]]
            loss = ppo_loss(p, mb)
            opt.zero_grad()
            loss.backward()
            opt.step()
    lg, v = p(torch.from_numpy(r.obs))
    assert lg.shape == (12, 4, 3) and v.shape == (12, 4)
    vs, pg = vtrace(torch.zeros(12, 4), 0.99 * (~torch.from_numpy(r.done)).float(), torch.from_numpy(r.rew), v.detach(), torch.zeros(4))
    assert vs.shape == pg.shape == (12, 4)

if __name__ == "__main__":
    main()
