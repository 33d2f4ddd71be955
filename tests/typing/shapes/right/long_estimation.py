"""Kalman, particle filter, GP, HMM, kmeans, PCA in numpy."""
from __future__ import annotations
import numpy as np
from dataclasses import dataclass, replace
from typing import Optional, Callable, Literal, overload, Union
from numpy.typing import NDArray, ArrayLike
from jaxtyping import Float, Int, Bool, Float32, Float64, Int64, jaxtyped
from beartype import beartype
tc = jaxtyped(typechecker=beartype)

@dataclass(frozen=True)
class Gauss:
    m: Float64[np.ndarray, "D"]
    P: Float64[np.ndarray, "D D"]
    def marg(self, idx: list[int]) -> "Gauss":
        return Gauss(self.m[idx], self.P[np.ix_(idx, idx)])
    def sample(self, n: int, rng: np.random.Generator) -> Float64[np.ndarray, "n D"]:
        L = np.linalg.cholesky(self.P)
        return self.m + rng.standard_normal((n, len(self.m))) @ L.T

class Kalman:
    F: Float64[np.ndarray, "D D"]
    H: Float64[np.ndarray, "K D"]
    def __init__(self, dt: float = 0.1, q: float = 0.01, r: float = 0.5) -> None:
        self.F = np.block([[np.eye(2), dt * np.eye(2)], [np.zeros((2, 2)), np.eye(2)]])
        self.H = np.hstack([np.eye(2), np.zeros((2, 2))])
        self.Q = q * np.eye(4)
        self.R = r * np.eye(2)
    def predict(self, s: Gauss) -> Gauss:
        return replace(s, m=self.F @ s.m, P=self.F @ s.P @ self.F.T + self.Q)
    def update(self, s: Gauss, z: Float64[np.ndarray, "K"]) -> tuple[Gauss, float]:
        y = z - self.H @ s.m
        S = self.H @ s.P @ self.H.T + self.R
        K = s.P @ self.H.T @ np.linalg.inv(S)
        m = s.m + K @ y
        IKH = np.eye(len(m)) - K @ self.H
        P = IKH @ s.P @ IKH.T + K @ self.R @ K.T
        ll = -0.5 * (y @ np.linalg.solve(S, y) + np.log(np.linalg.det(S)) + len(y) * np.log(2 * np.pi))
        return Gauss(m, P), float(ll)
    def run(self, zs: Float64[np.ndarray, "T K"], s: Optional[Gauss] = None) -> tuple[Float64[np.ndarray, "T D"], Float64[np.ndarray, "T D D"], float]:
        s = s if s is not None else Gauss(np.zeros(4), np.eye(4))
        ms = np.zeros((len(zs), 4))
        Ps = np.zeros((len(zs), 4, 4))
        tot = 0.0
        for t, z in enumerate(zs):
            s = self.predict(s)
            if not np.isnan(z).any():
                s, ll = self.update(s, z)
                tot += ll
            ms[t], Ps[t] = s.m, s.P
        return ms, Ps, tot
    def smooth(self, ms: Float64[np.ndarray, "T D"], Ps: Float64[np.ndarray, "T D D"]) -> Float64[np.ndarray, "T D"]:
        out = ms.copy()
        P = Ps.copy()
        for t in range(len(ms) - 2, -1, -1):
            pm = self.F @ ms[t]
            pP = self.F @ Ps[t] @ self.F.T + self.Q
            G = Ps[t] @ self.F.T @ np.linalg.inv(pP)
            out[t] += G @ (out[t + 1] - pm)
            P[t] += G @ (P[t + 1] - pP) @ G.T
        return out

@tc
def particle_filter(zs: Float[np.ndarray, "T"], n: int, rng: np.random.Generator) -> tuple[Float[np.ndarray, "T"], Float[np.ndarray, "n 2"]]:
    x = rng.normal(size=(n, 2))
    w = np.full(n, 1 / n)
    est = np.empty(len(zs))
    for t in range(zs.shape[0]):
        x[:, 0] += 0.1 * x[:, 1]
        x += rng.normal(scale=0.05, size=x.shape)
        lw = -0.5 * (zs[t] - x[:, 0]) ** 2 / 0.1
        w = w * np.exp(lw - lw.max())
        w /= w.sum()
        est[t] = w @ x[:, 0]
        if 1.0 / np.sum(w ** 2) < n / 2:
            pos = (rng.random() + np.arange(n)) / n
            idx = np.searchsorted(np.cumsum(w), pos).clip(max=n - 1)
            x = x[idx]
            w = np.full_like(w, 1 / n)
    return est, x

Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]
def rbf(a: Float[np.ndarray, "N D"], b: Float[np.ndarray, "M D"], ell: float = 1.0) -> Float[np.ndarray, "N M"]:
    d2 = np.sum(a ** 2, 1)[:, None] + np.sum(b ** 2, 1) - 2 * a @ b.T
    alt = ((a[:, None] - b) ** 2).sum(-1)
    assert np.allclose(d2, alt)
    return np.exp(-0.5 * np.maximum(d2, 0) / ell ** 2)

class GP:
    def __init__(self, k: Kernel = rbf, noise: float = 1e-2) -> None:
        self.k, self.noise = k, noise
        self.X: Optional[Float[np.ndarray, "N D"]] = None
    def fit(self, X: Float[np.ndarray, "N D"], y: Float[np.ndarray, "N"]) -> "GP":
        if self.X is not None:
            X, y = np.vstack([self.X, X]), np.concatenate([self.y, y])
        self.X, self.y = X, y
        K = rbf(X, X) + self.noise * np.eye(len(X))
        self.L = np.linalg.cholesky(K)
        self.alpha = np.linalg.solve(self.L.T, np.linalg.solve(self.L, y))
        return self
    def predict(self, Xs: Float[np.ndarray, "M D"], full: bool = False) -> tuple[Float[np.ndarray, "M"], np.ndarray]:
        assert self.X is not None
        Ks = rbf(Xs, self.X)
        mu = Ks @ self.alpha
        v = np.linalg.solve(self.L, Ks.T)
        if full:
            return mu, rbf(Xs, Xs) - v.T @ v
        var = 1.0 - (v ** 2).sum(axis=0)
        return mu, var

@tc
def forward_backward(A: Float[np.ndarray, "S S"], B: Float[np.ndarray, "S O"], pi: Float[np.ndarray, "S"], obs: Int[np.ndarray, "T"]) -> tuple[Float[np.ndarray, "T S"], Float[np.ndarray, "S S"]]:
    T, S = len(obs), len(pi)
    al = np.zeros((T, S))
    be = np.ones((T, S))
    c = np.zeros(T)
    al[0] = pi * B[:, obs[0]]
    c[0] = al[0].sum()
    al[0] /= c[0]
    for t in range(1, T):
        al[t] = al[t - 1] @ A * B[:, obs[t]]
        c[t] = al[t].sum()
        al[t] /= c[t]
    for t in reversed(range(T - 1)):
        be[t] = A @ (B[:, obs[t + 1]] * be[t + 1]) / c[t + 1]
    g = al * be
    g /= g.sum(1, keepdims=True)
    xi = al[:-1, :, None] * A * (B[:, obs[1:]].T * be[1:])[:, None, :] / c[1:, None, None]
    newA = xi.sum(0)
    newA /= newA.sum(1, keepdims=True)
    return g, newA

@tc
def viterbi(logA: Float[np.ndarray, "S S"], logB: Float[np.ndarray, "T S"]) -> Int[np.ndarray, "T"]:
    T, S = logB.shape
    d = logB[0]
    back = np.zeros((T, S), int)
    for t in range(1, T):
        sc = d[:, None] + logA
        back[t] = sc.argmax(0)
        d = sc.max(0) + logB[t]
    path = [int(d.argmax())]
    for t in range(T - 1, 0, -1):
        path.append(back[t, path[-1]])
    return np.array(path[::-1])

@tc
def kmeans(x: Float[np.ndarray, "N D"], k: int, rng: np.random.Generator) -> tuple[Float[np.ndarray, "k D"], Int[np.ndarray, "N"]]:
    c = x[rng.choice(len(x), k, replace=False)]
    lab = np.zeros(len(x), dtype=int)
    for _ in range(10):
        d = np.linalg.norm(x[:, None] - c[None], axis=-1)
        lab = d.argmin(1)
        new = np.stack([x[lab == j].mean(0) if (lab == j).any() else c[j] for j in range(k)])
        if np.allclose(new, c):
            break
        c = new
    oh = np.eye(k)[lab]
    cnt = oh.sum(0)
    assert ((oh.T @ x) / np.maximum(cnt, 1)[:, None]).shape == c.shape
    return c, lab

@tc
def pca(x: Float[np.ndarray, "N D"], k: int) -> tuple[Float[np.ndarray, "N k"], Float[np.ndarray, "k D"], Float[np.ndarray, "k"]]:
    mu = x.mean(0, keepdims=True)
    U, S, Vt = np.linalg.svd(x - mu, full_matrices=False)
    z = U[:, :k] * S[:k]
    cov = np.cov(x, rowvar=False)
    ev, V = np.linalg.eigh(cov)
    order = np.argsort(ev)[::-1][:k]
    assert np.allclose(ev[order], S[:k] ** 2 / (len(x) - 1))
    rec = z @ Vt[:k] + mu
    assert rec.shape == x.shape
    return z, V[:, order].T, ev[order]

@tc
def ridge(X: Float[np.ndarray, "N D"], y: Float[np.ndarray, "N"], lam: float = 1.0, bias: bool = True) -> Float[np.ndarray, "P"]:
    if bias:
        X = np.concatenate([np.ones((len(X), 1)), X], axis=1)
    n, d = X.shape
    reg = lam * np.eye(d)
    reg[0, 0] = 0
    w = np.linalg.solve(X.T @ X + reg, X.T @ y)
    r = y - X @ w
    g = X.T @ r / n
    H = (X * (1 - r ** 2)[:, None]).T @ X
    return w + 0 * g + 0 * H.sum(0)

def main() -> None:
    rng = np.random.default_rng(0)
    kf = Kalman()
    zs = rng.normal(size=(10, 2)); zs[3] = np.nan
    ms, Ps, ll = kf.run(zs)
    assert kf.smooth(ms, Ps).shape == (10, 4)
    assert Gauss(ms[0], Ps[0]).marg([0, 2]).sample(5, rng).shape == (5, 2)
    est, x = particle_filter(rng.normal(size=7), 50, rng)
    gp = GP().fit(rng.random((6, 2)), rng.random(6)).fit(rng.random((2, 2)), rng.random(2))
    mu, var = gp.predict(rng.random((4, 2)))
    assert mu.shape == var.shape == (4,) and gp.predict(rng.random((4, 2)), True)[1].shape == (4, 4)
    A = np.full((3, 3), 1 / 3); B = np.full((3, 4), 0.25)
    g, nA = forward_backward(A, B, np.full(3, 1 / 3), rng.integers(0, 4, 8))
    assert viterbi(np.log(A), np.log(B).T[rng.integers(0, 4, 6)]).shape == (6,)
    kmeans(rng.random((20, 3)), 4, rng); pca(rng.random((20, 3)), 2)
    assert ridge(rng.random((9, 3)), rng.random(9)).shape == (4,)

if __name__ == "__main__":
    main()
