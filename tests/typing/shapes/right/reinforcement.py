"""Right programs about reinforcement learning, each below its name."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Bool, Float, Float32, Int, jaxtyped
from torch import Tensor

# ---- actor_critic_module
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

# ---- c51_expected_value
@jaxtyped(typechecker=beartype)
def greedy(logits: Float[Tensor, "N A Z"], atoms: Float[Tensor, "Z"]) -> tuple[Int[Tensor, "N"], Float[Tensor, "N"]]:
    q = (logits.softmax(-1) * atoms).sum(-1)
    best = q.argmax(1)
    again = torch.einsum("naz,z->na", logits.softmax(-1), atoms)
    assert torch.allclose(q, again, atol=1e-5)
    return best, q.gather(1, best[:, None])[:, 0]

def main() -> None:
    a, v = greedy(torch.randn(4, 3, 5), torch.linspace(-1, 1, 5))
    assert a.shape == v.shape == (4,)

# ---- c51_projection
@jaxtyped(typechecker=beartype)
def project(
    probs: Float[Tensor, "N Z"], rew: Float[Tensor, "N"], done: Float[Tensor, "N"], atoms: Float[Tensor, "Z"]
) -> Float[Tensor, "N Z"]:
    n, z = probs.shape
    lo, hi = atoms[0], atoms[-1]
    dz = (hi - lo) / (z - 1)
    tz = (rew[:, None] + 0.99 * (1 - done[:, None]) * atoms).clamp(lo, hi)
    b = (tz - lo) / dz
    low, up = b.floor().long(), b.ceil().long()
    low = torch.where((up > 0) & (low == up), low - 1, low)
    up = torch.where((low < z - 1) & (low == up), up + 1, up)
    offset = torch.arange(n).unsqueeze(1) * z
    out = torch.zeros(n * z)
    out.index_add_(0, (low + offset).view(-1), (probs * (up - b)).view(-1))
    out.index_add_(0, (up + offset).view(-1), (probs * (b - low)).view(-1))
    return out.view(n, z)

def main() -> None:
    p = torch.full((3, 11), 1 / 11)
    out = project(p, torch.randn(3), torch.zeros(3), torch.linspace(-5, 5, 11))
    assert out.shape == (3, 11) and torch.allclose(out.sum(1), torch.ones(3), atol=1e-4)

# ---- chunk_gaussian_head
import math
@jaxtyped(typechecker=beartype)
def sample(noise: Float[Tensor, "N A"], out: Float[Tensor, "N 2*A"]) -> tuple[Float[Tensor, "N A"], Float[Tensor, "N"]]:
    mean, log_std = out.chunk(2, dim=-1)
    log_std = log_std.clamp(-5, 2)
    u = mean + log_std.exp() * noise
    logp = (-0.5 * noise**2 - log_std - 0.5 * math.log(2 * math.pi)).sum(-1)
    logp = logp - torch.log(1 - torch.tanh(u) ** 2 + 1e-6).sum(-1)
    return torch.tanh(u), logp

def main() -> None:
    noise = torch.randn(5, 3)
    a, lp = sample(noise, torch.randn(5, 6))
    assert a.shape == (5, 3) and lp.shape == (5,)

# ---- cross_entropy_three_ways
@jaxtyped(typechecker=beartype)
def three(logits: Float[Tensor, "N L V"], labels: Int[Tensor, "N L"]) -> Float[Tensor, "3"]:
    n, length, v = logits.shape
    a = F.cross_entropy(logits.view(-1, v), labels.view(-1), reduction="none").view(n, length)
    b = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
    c = F.nll_loss(F.log_softmax(logits, -1).permute(0, 2, 1), labels, reduction="none")
    return torch.stack([a.mean(), b.mean(), c.mean()])

def main() -> None:
    out = three(torch.randn(2, 5, 7), torch.randint(7, (2, 5)))
    assert out.shape == (3,) and torch.allclose(out[0], out[2])

# ---- discount_matrix
@jaxtyped(typechecker=beartype)
def discounted(rew: Float[Tensor, "T B"], gamma: float) -> Float[Tensor, "T B"]:
    steps = torch.arange(rew.shape[0])
    lag = steps - steps[:, None]
    weight = torch.where(lag >= 0, gamma ** lag.clamp(min=0).float(), torch.tensor(0.0))
    return weight @ rew

def main() -> None:
    out = discounted(torch.ones(4, 2), 1.0)
    assert out.shape == (4, 2) and out[0, 0] == 4

# ---- discounted_cumsum_flip
@jaxtyped(typechecker=beartype)
def returns_to_go(rew: Float[Tensor, "T B"]) -> Float[Tensor, "T B"]:
    return rew.flip(0).cumsum(0).flip(0)

@jaxtyped(typechecker=beartype)
def np_returns_to_go(rew: Float[np.ndarray, "T"], gamma: float) -> Float[np.ndarray, "T"]:
    pows = gamma ** np.arange(len(rew))
    return np.cumsum((rew * pows)[::-1])[::-1] / pows

def main() -> None:
    assert returns_to_go(torch.ones(5, 2))[0, 0] == 5
    assert np_returns_to_go(np.ones(4), 1.0).tolist() == [4, 3, 2, 1]

# ---- double_dqn
@jaxtyped(typechecker=beartype)
def double_dqn(
    q: Float[Tensor, "N A"], online: Float[Tensor, "N A"], target: Float[Tensor, "N A"],
    act: Int[Tensor, "N"], rew: Float[Tensor, "N"], done: Bool[Tensor, "N"],
) -> Float[Tensor, ""]:
    best = online.argmax(dim=1, keepdim=True)
    nxt = target.gather(1, best).squeeze(1)
    y = rew + 0.99 * nxt * ~done
    chosen = q.gather(1, act.view(-1, 1)).view(-1)
    return F.smooth_l1_loss(chosen, y.detach())

def main() -> None:
    q = torch.randn(5, 3)
    assert double_dqn(q, q, q, torch.randint(3, (5,)), torch.zeros(5), torch.zeros(5, dtype=torch.bool)).shape == ()

# ---- dueling_head
@jaxtyped(typechecker=beartype)
def dueling(value: Float[Tensor, "N 1"], adv: Float[Tensor, "N A"]) -> Float[Tensor, "N A"]:
    return value + adv - adv.mean(dim=1, keepdim=True)

@jaxtyped(typechecker=beartype)
def dueling_atoms(value: Float[Tensor, "N Z"], adv: Float[Tensor, "N A Z"]) -> Float[Tensor, "N A Z"]:
    return value.unsqueeze(1) + adv - adv.mean(1, keepdim=True)

def main() -> None:
    assert dueling(torch.randn(4, 1), torch.randn(4, 3)).shape == (4, 3)
    assert dueling_atoms(torch.randn(4, 5), torch.randn(4, 3, 5)).shape == (4, 3, 5)

# ---- ensemble_broadcast_target
@jaxtyped(typechecker=beartype)
def ensemble_loss(qs: Float[Tensor, "E N"], target: Float[Tensor, "N"]) -> Float[Tensor, "E"]:
    return (qs - target).square().mean(dim=1)

@jaxtyped(typechecker=beartype)
def per_step(q: Float[Tensor, "T B"], baseline: Float[Tensor, "B"], clock: Float[Tensor, "T 1"]) -> Float[Tensor, "T B"]:
    return q - baseline + clock

def main() -> None:
    assert ensemble_loss(torch.randn(3, 5), torch.randn(5)).shape == (3,)
    assert per_step(torch.randn(6, 2), torch.randn(2), torch.zeros(6, 1)).shape == (6, 2)

# ---- frame_stack_window
@jaxtyped(typechecker=beartype)
def stack_frames(frames: Float32[np.ndarray, "T H W"], k: int) -> Float32[np.ndarray, "T {k} H W"]:
    padded = np.concatenate([np.repeat(frames[:1], k - 1, axis=0), frames])
    return np.stack([padded[i : i + len(frames)] for i in range(k)], axis=1)

@jaxtyped(typechecker=beartype)
def windows(x: Float[Tensor, "T D"], k: int) -> Float[Tensor, "W {k} D"]:
    return x.unfold(0, k, 1).mT

def main() -> None:
    assert stack_frames(np.zeros((6, 3, 3), np.float32), 4).shape == (6, 4, 3, 3)
    assert windows(torch.zeros(6, 2), 4).shape == (3, 4, 2)

# ---- gae_append_last_value
@jaxtyped(typechecker=beartype)
def deltas(
    rew: Float[Tensor, "T"], val: Float[Tensor, "T"], last: Float[Tensor, ""], done: Bool[Tensor, "T"]
) -> Float[Tensor, "T"]:
    extended: Float[Tensor, "T+1"] = torch.cat([val, last[None]])
    cont = (~done).float()
    return rew + 0.99 * cont * extended[1:] - extended[:-1]

def main() -> None:
    out = deltas(torch.zeros(4), torch.ones(4), torch.tensor(2.0), torch.zeros(4, dtype=torch.bool))
    assert out.shape == (4,)

# ---- gae_list_flip_stack
@jaxtyped(typechecker=beartype)
def gae(deltas: Float[Tensor, "T B"], discount: Float[Tensor, "T B"]) -> Float[Tensor, "T B"]:
    out: list[Tensor] = []
    acc = torch.zeros_like(deltas[0])
    for d, g in zip(deltas.flip(0), discount.flip(0)):
        acc = d + g * acc
        out.append(acc)
    return torch.stack(out[::-1])

def main() -> None:
    assert gae(torch.ones(6, 3), torch.full((6, 3), 0.9)).shape == (6, 3)

# ---- gae_numpy_loop
@jaxtyped(typechecker=beartype)
def gae(
    rew: Float32[np.ndarray, "T B"], val: Float32[np.ndarray, "T B"], last: Float32[np.ndarray, "B"],
    done: Bool[np.ndarray, "T B"],
) -> Float32[np.ndarray, "T B"]:
    adv = np.zeros_like(rew)
    carry: np.ndarray | float = 0.0
    for t in reversed(range(len(rew))):
        nonterminal = 1.0 - done[t]
        nxt = last if t == len(rew) - 1 else val[t + 1]
        delta = rew[t] + 0.99 * nxt * nonterminal - val[t]
        carry = delta + 0.99 * 0.95 * nonterminal * carry
        adv[t] = carry
    return adv

def main() -> None:
    f = np.float32
    assert gae(np.ones((5, 2), f), np.zeros((5, 2), f), np.zeros(2, f), np.zeros((5, 2), bool)).shape == (5, 2)

# ---- hindsight_relabel
from typing import Any
@jaxtyped(typechecker=beartype)
def relabel(goal: Float[np.ndarray, "N G"], achieved: Float[np.ndarray, "N G"], future: Int[np.ndarray, "N"], rng: Any) -> Float[np.ndarray, "N G"]:
    use = rng.random(len(goal)) < 0.8
    out = goal.copy()
    out[use] = achieved[future[use]]
    same = np.where(use[:, None], achieved[future], goal)
    assert np.array_equal(out, same)
    return out

@jaxtyped(typechecker=beartype)
def sparse_reward(goal: Float[np.ndarray, "N G"], achieved: Float[np.ndarray, "N G"]) -> Float32[np.ndarray, "N"]:
    return -(np.linalg.norm(goal - achieved, axis=-1) > 0.05).astype(np.float32)

def main() -> None:
    g, a = np.zeros((6, 3)), np.ones((6, 3))
    new = relabel(g, a, np.arange(6)[::-1].copy(), np.random.default_rng(0))
    assert sparse_reward(new, a).shape == (6,)

# ---- lstm_state_reset
class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 8)

    def forward(self, x: Float[Tensor, "T B 3"], done: Float[Tensor, "T B"], state: tuple[Float[Tensor, "1 B H"], Float[Tensor, "1 B H"]]) -> Float[Tensor, "T*B H"]:
        outs: list[Tensor] = []
        for h, d in zip(x, done):
            keep = (1.0 - d).view(1, -1, 1)
            out, state = self.lstm(h.unsqueeze(0), (keep * state[0], keep * state[1]))
            outs += [out]
        return torch.flatten(torch.cat(outs), 0, 1)

def main() -> None:
    s = (torch.zeros(1, 2, 8), torch.zeros(1, 2, 8))
    assert Recurrent()(torch.zeros(5, 2, 3), torch.zeros(5, 2), s).shape == (10, 8)

# ---- minibatch_permutation
def epoch(obs: Float[Tensor, "N D"], adv: Float[Tensor, "N"], size: int) -> list[float]:
    n = obs.shape[0]
    order = torch.randperm(n)
    losses = []
    for start in range(0, n, size):
        idx = order[start : start + size]
        o, a = obs[idx], adv[idx]
        a = (a - a.mean()) / (a.std() + 1e-8)
        losses.append(float((o.mean(-1) * a).mean()))
    return losses

def main() -> None:
    assert len(epoch(torch.randn(10, 3), torch.randn(10), 4)) == 3

# ---- n_step_slices
@jaxtyped(typechecker=beartype)
def n_step(rew: Float[Tensor, "T"], val: Float[Tensor, "T+1"], n: int) -> Float[Tensor, "K"]:
    horizon = len(rew) - n + 1
    out = torch.zeros(horizon)
    for k in range(n):
        out += 0.99**k * rew[k : k + horizon]
    return out + 0.99**n * val[n:]

@jaxtyped(typechecker=beartype)
def two_step(rew: Float[Tensor, "T"], val: Float[Tensor, "T+1"]) -> Float[Tensor, "T-1"]:
    return rew[:-1] + 0.99 * rew[1:] + 0.99**2 * val[2:]

def main() -> None:
    assert n_step(torch.ones(6), torch.zeros(7), 3).shape == (4,)
    assert two_step(torch.ones(6), torch.zeros(7)).shape == (5,)

# ---- prioritized_weights
from jaxtyping import Float64
@jaxtyped(typechecker=beartype)
def per_loss(q: Float[Tensor, "N"], y: Float[Tensor, "N"], prio: Float64[np.ndarray, "N"]) -> tuple[Float[Tensor, ""], Float32[np.ndarray, "N"]]:
    w = (len(prio) * prio / prio.sum()) ** -0.4
    weight = torch.as_tensor(w / w.max(), dtype=q.dtype)
    td = F.smooth_l1_loss(q, y, reduction="none")
    return (weight * td).mean(), td.detach().abs().numpy() + np.float32(1e-6)

def main() -> None:
    loss, new = per_loss(torch.randn(5), torch.randn(5), np.ones(5))
    assert loss.shape == () and new.shape == (5,)

# ---- quantile_huber_pairwise
@jaxtyped(typechecker=beartype)
def quantile_huber(
    pred: Float[Tensor, "N K"], target: Float[Tensor, "N M"], taus: Float[Tensor, "K"]
) -> Float[Tensor, "N"]:
    delta = target[:, None, :] - pred[:, :, None]
    abs_delta = delta.abs()
    huber = torch.where(abs_delta <= 1.0, 0.5 * delta**2, abs_delta - 0.5)
    weight = (taus[None, :, None] - (delta.detach() < 0).float()).abs()
    return (weight * huber).mean(dim=2).sum(dim=1)

def main() -> None:
    taus = (torch.arange(5) + 0.5) / 5
    assert quantile_huber(torch.randn(3, 5), torch.randn(3, 7), taus).shape == (3,)
    assert quantile_huber(torch.randn(3, 5), torch.randn(3, 5), taus).shape == (3,)

# ---- quantile_huber_smooth_l1_expand
def huber_pairs(pred: Float[Tensor, "N K"], target: Float[Tensor, "N K"]) -> Float[Tensor, "N K K"]:
    n, k = pred.shape
    a = pred.unsqueeze(2).expand(n, k, k)
    b = target.unsqueeze(1).expand(-1, k, -1)
    return F.smooth_l1_loss(a, b, reduction="none")

def main() -> None:
    out = huber_pairs(torch.randn(4, 6), torch.randn(4, 6))
    assert out.shape == (4, 6, 6)

# ---- redq_random_subset
@jaxtyped(typechecker=beartype)
def redq(qs: Float[Tensor, "E N"], rew: Float[Tensor, "N"], m: int) -> tuple[Float[Tensor, "N"], Float[Tensor, ""]]:
    idx = torch.randperm(qs.size(0))[:m]
    target = rew + 0.99 * qs[idx].min(dim=0).values
    loss = F.mse_loss(qs, target.expand_as(qs))
    return target, loss

def main() -> None:
    t, l = redq(torch.randn(10, 4), torch.zeros(4), 2)
    assert t.shape == (4,) and l.shape == ()

# ---- running_mean_std
class RunningMeanStd:
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.mean = np.zeros(shape, np.float64)
        self.var = np.ones(shape, np.float64)
        self.count = 1e-4

    def update(self, x: Float[np.ndarray, "N *obs"]) -> None:
        mean, var, n = x.mean(axis=0), x.var(axis=0), x.shape[0]
        delta, total = mean - self.mean, self.count + n
        m2 = self.var * self.count + var * n + np.square(delta) * self.count * n / total
        self.mean = self.mean + delta * n / total
        self.var, self.count = m2 / total, total

    def __call__(self, x: Float32[np.ndarray, "N *obs"]) -> Float32[np.ndarray, "N *obs"]:
        return ((x - self.mean) / np.sqrt(self.var + 1e-8)).astype(np.float32)

def main() -> None:
    for shape in [(), (3,), (4, 4)]:
        rms = RunningMeanStd(shape)
        x = np.random.default_rng(0).normal(size=(10, *shape)).astype(np.float32)
        rms.update(x)
        assert rms(x).shape == (10, *shape) and rms(x).dtype == np.float32

# ---- sac_columns
def sac_target(
    rew: Float[Tensor, "N 1"], done: Float[Tensor, "N 1"], qs: list[Float[Tensor, "N 1"]], logp: Float[Tensor, "N A"], alpha: float
) -> Float[Tensor, "N 1"]:
    entropy = logp.sum(dim=-1, keepdim=True)
    min_q, _ = torch.min(torch.cat(qs, dim=1), dim=1, keepdim=True)
    return rew + 0.99 * (1 - done) * (min_q - alpha * entropy)

def main() -> None:
    c = torch.zeros(4, 1)
    assert sac_target(c, c, [c, c, c], torch.randn(4, 2), 0.2).shape == (4, 1)

# ---- value_column_on_purpose
@jaxtyped(typechecker=beartype)
def critic_loss(q1: Float[Tensor, "N 1"], q2: Float[Tensor, "N 1"], rew: Float[Tensor, "N"], done: Bool[Tensor, "N"], nxt: Float[Tensor, "N 1"]) -> Float[Tensor, ""]:
    target = rew.view(-1, 1) + 0.99 * (~done).view(-1, 1) * nxt
    return F.mse_loss(q1, target) + F.mse_loss(q2, target)

def main() -> None:
    q = torch.randn(4, 1)
    assert critic_loss(q, q, torch.randn(4), torch.zeros(4, dtype=torch.bool), q).shape == ()

# ---- vtrace
@jaxtyped(typechecker=beartype)
def vtrace(
    log_rho: Float[Tensor, "T B"], disc: Float[Tensor, "T B"], rew: Float[Tensor, "T B"],
    val: Float[Tensor, "T B"], boot: Float[Tensor, "B"],
) -> tuple[Float[Tensor, "T B"], Float[Tensor, "T B"]]:
    rho = log_rho.exp().clamp(max=1.0)
    nxt = torch.cat([val[1:], boot.unsqueeze(0)], dim=0)
    delta = rho * (rew + disc * nxt - val)
    acc, out = torch.zeros_like(boot), []
    for t in range(len(disc) - 1, -1, -1):
        acc = delta[t] + disc[t] * rho[t] * acc
        out.append(acc)
    vs = torch.stack(out[::-1]) + val
    vs_next = torch.cat((vs[1:], boot[None]))
    return vs, rho * (rew + disc * vs_next - val)

def main() -> None:
    x = torch.randn(4, 3)
    a, b = vtrace(x, x, x, x, torch.zeros(3))
    assert a.shape == b.shape == (4, 3)
