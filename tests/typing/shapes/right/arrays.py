"""Right programs about arrays and declarations, each below its name."""

import math
from typing import Callable, TypeVar
import numpy as np
import torch
import torch.nn.functional as F
from beartype import beartype
from jaxtyping import Bool, Float, Float32, Int, jaxtyped
from torch import Tensor

# ---- advanced_indexing_grid
@jaxtyped(typechecker=beartype)
def submatrix(x: Float[Tensor, "N M"], rows: Int[Tensor, "R"], cols: Int[Tensor, "C"]) -> Float[Tensor, "R C"]:
    return x[rows[:, None], cols]

@jaxtyped(typechecker=beartype)
def np_submatrix(x: Float[np.ndarray, "N M"], rows: Int[np.ndarray, "R"], cols: Int[np.ndarray, "C"]) -> Float[np.ndarray, "R C"]:
    return x[np.ix_(rows, cols)]

def main() -> None:
    r, c = torch.tensor([0, 2]), torch.tensor([1, 1, 3])
    x = torch.randn(4, 5)
    assert submatrix(x, r, c).shape == np_submatrix(x.numpy(), r.numpy(), c.numpy()).shape == (2, 3)

# ---- advanced_indexing_pair
@jaxtyped(typechecker=beartype)
def select(probs: Float[Tensor, "N A Z"], act: Int[Tensor, "N"]) -> Float[Tensor, "N Z"]:
    return probs[torch.arange(probs.shape[0]), act]

@jaxtyped(typechecker=beartype)
def last_hidden(h: Float[Tensor, "N L D"], lengths: Int[Tensor, "N"]) -> Float[Tensor, "N D"]:
    rows = torch.arange(len(h))
    return h[rows, lengths - 1]

@jaxtyped(typechecker=beartype)
def split_by_slice(x: Float[Tensor, "N L D"], col: Int[Tensor, "N"]) -> Float[Tensor, "N L"]:
    return x[torch.arange(len(x)), :, col]

def main() -> None:
    x, i = torch.randn(4, 3, 7), torch.tensor([0, 1, 2, 1])
    assert select(x, i).shape == (4, 7)
    assert last_hidden(x, i + 1).shape == (4, 7)
    assert split_by_slice(x, i).shape == (4, 3)

# ---- boolean_mask_indexing
@jaxtyped(typechecker=beartype)
def token_loss(logits: Float[Tensor, "N L V"], labels: Int[Tensor, "N L"]) -> Float[Tensor, ""]:
    valid = labels != -100
    flat_logits = logits[valid]
    flat_labels = labels[valid]
    weight = torch.rand(int(valid.sum()))
    nll = F.cross_entropy(flat_logits, flat_labels, reduction="none")
    return (nll * weight).sum() / weight.sum()

def main() -> None:
    labels = torch.tensor([[1, 2, -100], [0, -100, -100]])
    assert token_loss(torch.randn(2, 3, 4), labels).shape == ()

# ---- branches_join
def to_column(x: Float[Tensor, "N"] | Float[Tensor, "N 1"]) -> Float[Tensor, "N 1"]:
    if x.dim() == 1:
        x = x.unsqueeze(-1)
    return x

def loss(values: Float[Tensor, "N 1"], returns: Float[Tensor, "N"], old: Float[Tensor, "N 1"] | None) -> Float[Tensor, ""]:
    target = to_column(returns)
    if old is not None:
        clipped = old + (values - old).clamp(-0.2, 0.2)
        err = torch.maximum((values - target) ** 2, (clipped - target) ** 2)
    else:
        err = (values - target) ** 2
    return err.mean()

def main() -> None:
    v = torch.randn(5, 1)
    assert loss(v, torch.randn(5), None).shape == loss(v, torch.randn(5), v).shape == ()

# ---- broadcastable_dims
@jaxtyped(typechecker=beartype)
def lerp(a: Float[Tensor, "#N #D"], b: Float[Tensor, "#N #D"], t: Float[Tensor, "#N #D"]) -> Float[Tensor, "N D"]:
    return a + t * (b - a)

def main() -> None:
    out = lerp(torch.zeros(4, 1), torch.ones(1, 3), torch.full((4, 3), 0.5))
    assert out.shape == (4, 3)

# ---- closure_schedule
def make_reward_fn(scale: Float[Tensor, "K"]) -> "Callable[[Tensor], Tensor]":
    def reward(features: Float[Tensor, "N K"]) -> Float[Tensor, "N"]:
        return (features * scale).sum(-1)

    return reward

def main() -> None:
    fn: Callable[[Tensor], Tensor] = make_reward_fn(torch.ones(3))
    assert fn(torch.randn(5, 3)).shape == (5,)
    assert fn(torch.randn(8, 3)).shape == (8,)

# ---- comprehension_stack
@jaxtyped(typechecker=beartype)
def ensemble(xs: Float[Tensor, "N D"], weights: list[Tensor]) -> Float[Tensor, "E N"]:
    qs = torch.stack([xs @ w for w in weights])
    return qs - qs.mean(0)

def main() -> None:
    out = ensemble(torch.randn(5, 3), [torch.randn(3) for _ in range(4)])
    assert out.shape == (4, 5)

# ---- early_return_empty_batch
@jaxtyped(typechecker=beartype)
def normalise(adv: Float[Tensor, "N"], mask: Bool[Tensor, "N"] | None = None) -> Float[Tensor, "N"]:
    n = adv.numel()
    if n <= 1:
        return torch.zeros_like(adv)
    if mask is None:
        mask = torch.ones(n, dtype=torch.bool)
    elif not mask.any():
        return adv
    kept = adv[mask]
    out = torch.empty_like(adv).fill_(0.0)
    out[mask] = (kept - kept.mean()) / kept.std(unbiased=False).clamp(min=1e-8)
    return out

def main() -> None:
    assert normalise(torch.zeros(0)).shape == (0,) and normalise(torch.ones(1)).shape == (1,)
    assert normalise(torch.randn(4), torch.tensor([True, True, False, False])).shape == (4,)

# ---- ellipsis_none_axes
@jaxtyped(typechecker=beartype)
def rbf(x: Float[Tensor, "*batch n d"], y: Float[Tensor, "*batch m d"]) -> Float[Tensor, "*batch n m"]:
    diff = x[..., :, None, :] - y[..., None, :, :]
    return torch.exp(-diff.square().sum(-1))

def main() -> None:
    assert rbf(torch.randn(3, 2), torch.randn(4, 2)).shape == (3, 4)
    assert rbf(torch.randn(6, 5, 3, 2), torch.randn(6, 5, 3, 2)).shape == (6, 5, 3, 3)

# ---- flatten_rollout_and_back
@jaxtyped(typechecker=beartype)
def evaluate(obs: Float[Tensor, "T B D"], w: Float[Tensor, "D"]) -> Float[Tensor, "T B"]:
    t, b = obs.shape[:2]
    flat = obs.reshape(t * b, -1)
    return (flat @ w).reshape(t, b)

@jaxtyped(typechecker=beartype)
def env_major(x: Float[Tensor, "T B *rest"]) -> Float[Tensor, "T*B *rest"]:
    return x.transpose(0, 1).reshape(-1, *x.shape[2:])

@jaxtyped(typechecker=beartype)
def by_env(x: Float[np.ndarray, "T B"]) -> Float[np.ndarray, "B T"]:
    t, b = x.shape
    return x.swapaxes(0, 1).reshape(b * t).reshape(b, t)

def main() -> None:
    assert evaluate(torch.randn(5, 2, 3), torch.randn(3)).shape == (5, 2)
    assert env_major(torch.randn(5, 2)).shape == (10,) and env_major(torch.randn(5, 2, 3, 4)).shape == (10, 3, 4)
    assert by_env(np.zeros((5, 2))).shape == (2, 5)

# ---- flattened_then_unflattened_transposed
def unflatten(flat: Float[Tensor, "M"], steps: int, envs: int) -> Float[Tensor, "T B"]:
    return flat.view(envs, steps).t()

def restore(x: Float[Tensor, "T B"]) -> Float[Tensor, "T B"]:
    t, b = x.shape
    flat = x.t().contiguous().view(-1)
    again = unflatten(flat, t, b)
    assert torch.equal(again, x)
    return again.reshape(t, b)

def main() -> None:
    assert restore(torch.arange(6.0).view(3, 2)).shape == (3, 2)

# ---- float32_survives_python_numbers
@jaxtyped(typechecker=beartype)
def scale(x: Float32[np.ndarray, "N"], y: Float32[Tensor, "N"]) -> tuple[Float32[np.ndarray, "N"], Float32[Tensor, "N"]]:
    x = np.where(x > 0, x * 2.0 + 1, 0.0).astype(np.float32, copy=False)
    x = np.clip((x - x.mean()) / (x.std() + 1e-8), -10, 10)
    w = torch.tensor(0.5, dtype=torch.float64)
    y = y * w + 3 - math.pi
    return np.maximum(x, 0), torch.where(y > 0, y, 0.0)

def main() -> None:
    a, b = scale(np.arange(4, dtype=np.float32), torch.arange(4.0))
    assert a.dtype == np.float32 and b.dtype == torch.float32

# ---- generic_array_typevar
A = TypeVar("A", np.ndarray, Tensor)

def ema(old: A, new: A, rate: float) -> A:
    return old * (1 - rate) + new * rate

def blend(a: Float[Tensor, "N D"], b: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    return ema(a, b, 0.1)

def main() -> None:
    assert blend(torch.zeros(2, 3), torch.ones(2, 3)).shape == (2, 3)
    assert ema(np.zeros((4, 1)), np.ones((4, 1)), 0.5).shape == (4, 1)

# ---- generic_first
from typing import Sequence
T = TypeVar("T")

def last(xs: Sequence[T]) -> T:
    return xs[-1]

def final_hidden(layers: list[Float[Tensor, "N D"]]) -> Float[Tensor, "N"]:
    return last(layers).mean(dim=1)

def main() -> None:
    assert final_hidden([torch.zeros(3, 4), torch.ones(3, 4)]).shape == (3,)

# ---- hybrid_of_flattened_equal_sizes
def stats(x: Float[Tensor, "T B"], horizon: int) -> dict[str, Float[Tensor, "..."]]:
    t, b = x.shape
    rows = x.reshape(t // horizon, horizon, b)
    resampled = rows.mean(1).repeat(horizon, 1)
    tail = x[-resampled.shape[0] :]
    return {"per_env": x.sum(0), "per_step": x.sum(1), "resid": tail - resampled, "last": x[-1] - x[0]}

def main() -> None:
    out = stats(torch.randn(6, 2), 3)
    assert out["per_env"].shape == (2,) and out["per_step"].shape == (6,)
    assert out["resid"].shape == (6, 2) and out["last"].shape == (2,)

# ---- in_place_updates
@jaxtyped(typechecker=beartype)
def postprocess(x: Float[Tensor, "N D"], bad: Bool[Tensor, "N"], bias: Float[Tensor, "D"]) -> Float[Tensor, "N D"]:
    x = x.clone()
    x += bias
    x /= x.norm(dim=1, keepdim=True)
    x[bad] = 0.0
    x[:, 0] = 1
    x[0] = bias
    x[:, 1:].mul_(2).clamp_(-1, 1)
    return x

def main() -> None:
    assert postprocess(torch.randn(4, 3), torch.tensor([True, False, True, False]), torch.ones(3)).shape == (4, 3)

# ---- integer_bits_and_blocks
FLAG_PAD = 4

@jaxtyped(typechecker=beartype)
def clear_pad(flags: Int[Tensor, "N"]) -> Int[Tensor, "N"]:
    return flags & ~FLAG_PAD

@jaxtyped(typechecker=beartype)
def page(positions: Int[Tensor, "N"], table: Int[Tensor, "P"], size: int) -> Int[Tensor, "N"]:
    return table[positions // size] * size + positions % size

@jaxtyped(typechecker=beartype)
def mean_int_reward(rew: Int[np.ndarray, "T"]) -> Float[np.ndarray, "T"]:
    return rew / 10 - (rew.sum() // 2) * 0.5

def main() -> None:
    assert clear_pad(torch.tensor([4, 5])).tolist() == [0, 1]
    assert page(torch.arange(6), torch.tensor([2, 0, 1]), 2).tolist() == [4, 5, 0, 1, 2, 3]
    assert mean_int_reward(np.array([1, 2])).shape == (2,)

# ---- iterate_and_zip_tensors
@jaxtyped(typechecker=beartype)
def episode_returns(rew: Float[Tensor, "T B"], done: Bool[Tensor, "T B"]) -> Float[Tensor, "B"]:
    total = torch.zeros(rew.shape[1])
    alive = torch.ones(rew.shape[1], dtype=torch.bool)
    for r, d in zip(rew, done):
        total += r * alive
        alive &= ~d
    return total

def lengths(seqs: Int[Tensor, "N L"], eos: int) -> list[int]:
    return [int((row == eos).nonzero()[0]) if (row == eos).any() else len(row) for row in seqs]

def main() -> None:
    assert episode_returns(torch.ones(5, 2), torch.zeros(5, 2, dtype=torch.bool)).shape == (2,)
    assert lengths(torch.tensor([[1, 2, 0], [1, 1, 1]]), 0) == [2, 3]

# ---- local_numbers_and_growth
def main() -> None:
    n, d, k = 16, 4, 3
    x = torch.zeros(n, d)
    w = torch.zeros(k, d)
    scores = x @ w.T
    assert scores.shape == (n, k)
    x = torch.cat([x, torch.zeros(2, d)])
    n += 2
    bias = torch.ones(n)
    total = (x @ w.T) + bias[:, None]
    assert total.shape == (18, 3)
    n, d = total.shape
    total = total * torch.ones(d) - torch.zeros(n, 1)
    assert total.sum(0).shape == (d,) and total.sum(1).shape == (n,)
    half = n // 2
    first, second = total[:half], total[half:]
    assert (first - second).shape == (9, 3)

# ---- mask_dtype_dance
@jaxtyped(typechecker=beartype)
def scores(x: Float[Tensor, "N L"], attention: Int[Tensor, "N L"], done: Bool[Tensor, "N"]) -> Float[Tensor, "N L"]:
    pad = ~attention.bool()
    keep = 1 - pad.long()
    keep = keep * (1 - done.int()).unsqueeze(1)
    weight = keep.float() / keep.sum(1, keepdim=True).clamp(min=1)
    return x.masked_fill(pad, 0.0) * weight

def main() -> None:
    out = scores(torch.ones(2, 4), torch.tensor([[1, 1, 0, 0], [1, 1, 1, 1]]), torch.tensor([False, True]))
    assert out.shape == (2, 4)

# ---- matmul_ranks
@jaxtyped(typechecker=beartype)
def ranks(x: Float[Tensor, "B N D"], w: Float[Tensor, "D"], m: Float[Tensor, "D E"], q: Float[Tensor, "B D"]) -> Float[Tensor, "B N"]:
    a = x @ w
    b = (x @ m).sum(-1)
    c = torch.bmm(x, q.unsqueeze(2)).squeeze(2)
    d = (q[:, None, None] @ x.mT[:, None]).reshape(a.shape)
    e = torch.matmul(w, x.transpose(1, 2))
    return a + b + c + d + e

def main() -> None:
    assert ranks(torch.randn(2, 3, 4), torch.randn(4), torch.randn(4, 5), torch.randn(2, 4)).shape == (2, 3)

# ---- names_swapped_between_functions
def attend(query: Float[Tensor, "N D"], memory: Float[Tensor, "M D"]) -> Float[Tensor, "N D"]:
    return (query @ memory.mT).softmax(-1) @ memory

def both(a: Float[Tensor, "N D"], b: Float[Tensor, "M D"]) -> tuple[Float[Tensor, "N D"], Float[Tensor, "M D"]]:
    return attend(a, b) + a, attend(b, a) + b

def transposed(d: Float[Tensor, "D N"]) -> Float[Tensor, "N D"]:
    return attend(d.T, d.T)

def main() -> None:
    x, y = both(torch.randn(3, 4), torch.randn(5, 4))
    assert x.shape == (3, 4) and y.shape == (5, 4) and transposed(torch.randn(2, 6)).shape == (6, 2)

# ---- numpy_bool_arithmetic
@jaxtyped(typechecker=beartype)
def discounts(done: Bool[np.ndarray, "T B"], trunc: Bool[np.ndarray, "T B"]) -> Float32[np.ndarray, "T B"]:
    alive = 1 - done
    alive = alive * (1 - (trunc & ~done))
    return (0.99 * alive).astype(np.float32)

@jaxtyped(typechecker=beartype)
def episode_ids(done: Bool[np.ndarray, "T"]) -> Int[np.ndarray, "T"]:
    return np.cumsum(done) - done

def main() -> None:
    d = np.zeros((3, 2), bool)
    assert discounts(d, d).shape == (3, 2) and episode_ids(np.array([False, True, False])).tolist() == [0, 0, 1]

# ---- numpy_take_along_axis
@jaxtyped(typechecker=beartype)
def chosen(q: Float[np.ndarray, "N A"], act: Int[np.ndarray, "N"]) -> Float[np.ndarray, "N"]:
    return np.take_along_axis(q, act[:, None], axis=1)[:, 0]

@jaxtyped(typechecker=beartype)
def sorted_rows(q: Float[np.ndarray, "N A"]) -> Float[np.ndarray, "N A"]:
    order = np.argsort(-q, axis=-1)
    top = np.take_along_axis(q, order, axis=-1)
    return top - top.max(axis=-1, keepdims=True)

def main() -> None:
    q = np.random.default_rng(0).normal(size=(4, 3))
    assert chosen(q, q.argmax(1)).shape == (4,) and sorted_rows(q).shape == (4, 3)

# ---- numpy_torch_round_trip
from jaxtyping import Float64, Int64
@jaxtyped(typechecker=beartype)
def act(obs: Float32[np.ndarray, "N D"], w: Float32[Tensor, "D A"]) -> Int64[np.ndarray, "N"]:
    with torch.no_grad():
        logits = torch.from_numpy(obs) @ w
    return logits.argmax(dim=1).cpu().numpy()

@jaxtyped(typechecker=beartype)
def float_obs(raw: Float64[np.ndarray, "N D"]) -> Float32[Tensor, "N D"]:
    return torch.as_tensor(raw, dtype=torch.float32)

def main() -> None:
    raw = np.random.default_rng(0).normal(size=(5, 3))
    assert float_obs(raw).dtype == torch.float32
    assert act(raw.astype(np.float32), torch.randn(3, 2)).shape == (5,)

# ---- optional_mask_mean
@jaxtyped(typechecker=beartype)
def masked_mean(
    x: Float[Tensor, "N L"], mask: Float[Tensor, "N L"] | None = None, dim: int | None = None
) -> Float[Tensor, "..."]:
    if mask is None:
        return x.mean() if dim is None else x.mean(dim)
    if dim is None:
        return (x * mask).sum() / mask.sum().clamp(min=1)
    return (x * mask).sum(dim) / mask.sum(dim).clamp(min=1)

def main() -> None:
    x, m = torch.randn(3, 5), torch.ones(3, 5)
    assert masked_mean(x).shape == masked_mean(x, m).shape == ()
    assert masked_mean(x, m, dim=1).shape == (3,)
    assert masked_mean(x, dim=0).shape == (5,)

# ---- overload_numpy_torch
from typing import overload
@overload
def log_mean_exp(x: Float[Tensor, "N K"]) -> Float[Tensor, "N"]: ...
@overload
def log_mean_exp(x: Float[np.ndarray, "N K"]) -> Float[np.ndarray, "N"]: ...
def log_mean_exp(x: Tensor | np.ndarray) -> Tensor | np.ndarray:
    if isinstance(x, Tensor):
        return x.logsumexp(1) - math.log(x.shape[1])
    top = x.max(axis=1, keepdims=True)
    return np.log(np.exp(x - top).mean(axis=1)) + top[:, 0]

def main() -> None:
    x = torch.randn(4, 3)
    a, b = log_mean_exp(x), log_mean_exp(x.numpy())
    assert a.shape == b.shape == (4,)
    assert np.allclose(a.numpy(), b, atol=1e-5)

# ---- pairwise_same_vector
@jaxtyped(typechecker=beartype)
def preference_matrix(scores: Float[Tensor, "N"]) -> Float[Tensor, "N N"]:
    return torch.sigmoid(scores[:, None] - scores)

@jaxtyped(typechecker=beartype)
def rank_loss(scores: Float[Tensor, "N"], rewards: Float[Tensor, "N"]) -> Float[Tensor, ""]:
    diff = scores.unsqueeze(1) - scores.unsqueeze(0)
    better = rewards.reshape(-1, 1) > rewards.reshape(1, -1)
    return -F.logsigmoid(diff)[better].mean()

def main() -> None:
    s = torch.tensor([0.1, 0.5, -0.2])
    assert preference_matrix(s).shape == (3, 3) and rank_loss(s, s).shape == ()

# ---- partial_and_lambda
import functools
def huber(err: Float[Tensor, "*s"], delta: float) -> Float[Tensor, "*s"]:
    return torch.where(err.abs() < delta, 0.5 * err**2, delta * (err.abs() - 0.5 * delta))

def losses(q: Float[Tensor, "N 1"], y: Float[Tensor, "N 1"], pair: Float[Tensor, "N K M"]) -> tuple[Float[Tensor, ""], Float[Tensor, "N"]]:
    small = functools.partial(huber, delta=0.5)
    mean: Callable[[Tensor], Tensor] = lambda x: x.mean((1, 2))
    return small(q - y).mean(), mean(small(pair))

def main() -> None:
    a, b = losses(torch.randn(3, 1), torch.randn(3, 1), torch.randn(3, 4, 5))
    assert a.shape == () and b.shape == (3,)

# ---- quaternion_to_matrix
@jaxtyped(typechecker=beartype)
def rotation(q: Float[Tensor, "N 4"]) -> Float[Tensor, "N 3 3"]:
    w, x, y, z = torch.unbind(q / q.norm(dim=1, keepdim=True), dim=1)
    rows = [
        1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y),
        2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x),
        2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y),
    ]
    return torch.stack(rows, dim=-1).reshape(-1, 3, 3)

def main() -> None:
    r = rotation(torch.randn(5, 4))
    assert torch.allclose(r @ r.mT, torch.eye(3).expand(5, 3, 3), atol=1e-5)

# ---- rebind_annotated
@jaxtyped(typechecker=beartype)
def pool(tokens: Float[Tensor, "b l d"]) -> Float[Tensor, "b"]:
    x: Float[Tensor, "b d"] = tokens.mean(1)
    y: Float[Tensor, "b 1"] = x.sum(1, keepdim=True)
    z: Float[Tensor, "b"] = (x - y).amax(1)
    return z

def main() -> None:
    assert pool(torch.randn(2, 3, 4)).shape == (2,)
    assert pool(torch.randn(1, 1, 1)).shape == (1,)

# ---- rebind_one_name
def head(x: Float[Tensor, "N D"], w: Float[Tensor, "D H"]) -> Float[Tensor, "N"]:
    x = x @ w
    x = x.relu()
    x = x.mean(dim=-1, keepdim=True)
    x = x - x.mean(dim=0)
    x = x.squeeze(-1)
    return x

def main() -> None:
    assert head(torch.randn(5, 3), torch.randn(3, 7)).shape == (5,)

# ---- same_function_other_sizes
def centred(x: Float[Tensor, "N D"]) -> Float[Tensor, "N D"]:
    return x - x.mean(0)

def cross_cov(a: Float[Tensor, "D N"], b: Float[Tensor, "D M"]) -> Float[Tensor, "N M"]:
    return centred(a).T @ centred(b)

def train_test(train: Float[Tensor, "N D"], test: Float[Tensor, "M D"]) -> Float[Tensor, "M D"]:
    return (test - train.mean(0)) / train.std(0) + centred(test) * 0

def main() -> None:
    assert cross_cov(torch.randn(5, 2), torch.randn(5, 3)).shape == (2, 3)
    assert train_test(torch.randn(9, 2), torch.randn(4, 2)).shape == (4, 2)

# ---- scalar_dims
@jaxtyped(typechecker=beartype)
def alpha_loss(log_alpha: Float[Tensor, ""], logp: Float[Tensor, "N"], target_entropy: float) -> Float[Tensor, ""]:
    return -(log_alpha.exp() * (logp + target_entropy).detach()).mean()

def main() -> None:
    log_alpha = torch.zeros((), requires_grad=True)
    loss = alpha_loss(log_alpha, torch.randn(7), -2.0)
    loss.backward()
    assert log_alpha.grad is not None and log_alpha.grad.shape == ()

# ---- self_dim_annotation
class Embedder:
    def __init__(self, dim: int) -> None:
        self.dim = dim
        self.table = torch.randn(100, dim)

    @jaxtyped(typechecker=beartype)
    def __call__(self, ids: Int[Tensor, "N L"]) -> Float[Tensor, "N L {self.dim}"]:
        return self.table[ids] * self.dim**0.5

    def tied_logits(self, h: Float[Tensor, "N L d"]) -> Float[Tensor, "N L V"]:
        return h @ self.table.T

def main() -> None:
    e = Embedder(6)
    h = e(torch.randint(100, (2, 3)))
    assert h.shape == (2, 3, 6) and e.tied_logits(h).shape == (2, 3, 100)

# ---- shaped_num_and_integer
from jaxtyping import Integer, Num, Shaped
@jaxtyped(typechecker=beartype)
def take(x: Shaped[Tensor, "N *rest"], idx: Integer[Tensor, "M"]) -> Shaped[Tensor, "M *rest"]:
    return x[idx.long()]

@jaxtyped(typechecker=beartype)
def total(x: Num[Tensor, "N L"]) -> Num[Tensor, "N"]:
    return x.sum(1)

def main() -> None:
    i = torch.tensor([0, 0, 1], dtype=torch.uint8)
    assert take(torch.zeros(2, 3, dtype=torch.bool), i).shape == (3, 3)
    assert take(torch.zeros(2), i).shape == (3,)
    assert total(torch.ones(2, 3)).shape == total(torch.ones(2, 3, dtype=torch.int32)).shape == (2,)

# ---- singleton_axis_kept
@jaxtyped(typechecker=beartype)
def baseline(rew: Float[Tensor, "T B"], value: Float[Tensor, "1 B"], gain: Float[Tensor, "1"]) -> Float[Tensor, "T B"]:
    return gain * (rew - value)

def single_env(rew: Float[Tensor, "T"]) -> Float[Tensor, "T"]:
    t = rew.shape[0]
    out = baseline(rew[:, None], torch.zeros(1, 1), torch.ones(1))
    return out.view(t)

def outer(n: int) -> Float[Tensor, "n n"]:
    column = torch.arange(n).view(n, 1).float()
    return column * column.T

def main() -> None:
    assert single_env(torch.randn(5)).shape == (5,) and outer(4).shape == (4, 4)
    assert baseline(torch.randn(5, 2), torch.zeros(1, 2), torch.ones(1)).shape == (5, 2)

# ---- split_with_sizes
@jaxtyped(typechecker=beartype)
def unpack(obs: Float[Tensor, "N 10"]) -> tuple[Float[Tensor, "N 3"], Float[Tensor, "N 3"], Float[Tensor, "N 4"]]:
    pos, vel, quat = torch.split(obs, [3, 3, 4], dim=-1)
    return pos - pos.mean(0), vel, F.normalize(quat, dim=-1)

def minibatches(x: Float[Tensor, "N D"], size: int) -> list[Tensor]:
    return [part.mean(0) for part in x.split(size)]

def main() -> None:
    p, v, q = unpack(torch.randn(5, 10))
    assert p.shape == v.shape == (5, 3) and q.shape == (5, 4)
    parts = minibatches(torch.randn(10, 2), 4)
    assert len(parts) == 3 and parts[-1].shape == (2,)

# ---- square_on_purpose
@jaxtyped(typechecker=beartype)
def symmetrise(a: Float[Tensor, "D D"]) -> Float[Tensor, "D D"]:
    return (a + a.T) / 2

@jaxtyped(typechecker=beartype)
def gram_minus_mean(x: Float[Tensor, "N D"]) -> Float[Tensor, "N N"]:
    k = x @ x.T
    row = k.mean(1)
    return k - row - row[:, None] + k.mean()

@jaxtyped(typechecker=beartype)
def cov(x: Float[Tensor, "N D"]) -> Float[Tensor, "D D"]:
    c = x - x.mean(0)
    return c.T @ c / (x.size(0) - 1) + 1e-5 * torch.eye(x.size(1))

def main() -> None:
    x = torch.randn(5, 3)
    assert symmetrise(cov(x)).shape == (3, 3) and gram_minus_mean(x).shape == (5, 5)

# ---- total_loss_scalars
def total(losses: dict[str, Float[Tensor, ""]], coefs: dict[str, float]) -> Float[Tensor, ""]:
    out = torch.zeros(())
    for name, value in losses.items():
        out = out + coefs.get(name, 1.0) * value
    return out

def main() -> None:
    x = torch.randn(3, 4)
    assert total({"pg": x.mean(), "vf": x.square().sum(), "ent": x.max()}, {"vf": 0.5}).shape == ()

# ---- tree_reduction_loop
def reduce_pairs(x: Float[Tensor, "N D"]) -> Float[Tensor, "D"]:
    while x.shape[0] > 1:
        if x.shape[0] % 2:
            x = torch.cat([x, torch.zeros(1, x.shape[1])])
        x = x[0::2] + x[1::2]
    return x[0]

def differences(x: Float[Tensor, "N T"], order: int) -> Float[Tensor, "N S"]:
    for _ in range(order):
        x = x[:, 1:] - x[:, :-1]
    return x

def main() -> None:
    assert reduce_pairs(torch.ones(5, 3)).tolist() == [5, 5, 5]
    assert differences(torch.randn(2, 6), 3).shape == (2, 3)

# ---- tuple_axes_moments
@jaxtyped(typechecker=beartype)
def batch_stats(x: Float32[np.ndarray, "T B D"]) -> tuple[Float32[np.ndarray, "D"], Float32[np.ndarray, "D"]]:
    mean = x.mean(axis=(0, 1))
    var = np.square(x - mean).mean(axis=(0, 1))
    return mean, var

@jaxtyped(typechecker=beartype)
def image_mean(x: Float[Tensor, "N C H W"]) -> Float[Tensor, "N C"]:
    return (x - x.mean(dim=(0, -2, -1), keepdim=True)).sum((-2, -1))

def main() -> None:
    m, v = batch_stats(np.ones((5, 2, 3), np.float32))
    assert m.shape == v.shape == (3,)
    assert image_mean(torch.randn(2, 3, 4, 4)).shape == (2, 3)

# ---- two_masks_of_rows
def margins(scores: Float[Tensor, "N"], positive: Bool[Tensor, "N"]) -> Float[Tensor, "P Q"]:
    pos, neg = scores[positive], scores[~positive]
    return pos[:, None] - neg

def balanced(scores: Float[Tensor, "N"], positive: Bool[Tensor, "N"]) -> Float[Tensor, ""]:
    pos, neg = scores[positive], scores[~positive]
    k = min(len(pos), len(neg))
    return (pos[:k] - neg[:k]).mean()

def main() -> None:
    s, m = torch.randn(5), torch.tensor([True, True, False, False, False])
    assert margins(s, m).shape == (2, 3) and balanced(s, m).shape == ()

# ---- type_aliases
from typing import TypeAlias
Logits: TypeAlias = Float[Tensor, "N A"]
Actions: TypeAlias = Int[Tensor, "N"]
Vector: TypeAlias = Float[Tensor, "N"]

@jaxtyped(typechecker=beartype)
def log_prob(logits: Logits, actions: Actions) -> Vector:
    return -F.cross_entropy(logits, actions, reduction="none")

@jaxtyped(typechecker=beartype)
def ratio(new: Logits, old: Logits, actions: Actions) -> Vector:
    return (log_prob(new, actions) - log_prob(old, actions)).exp()

def main() -> None:
    x = torch.randn(5, 3)
    assert torch.allclose(ratio(x, x, torch.randint(3, (5,))), torch.ones(5))

# ---- unbind_loop
@jaxtyped(typechecker=beartype)
def rnn(x: Float[Tensor, "B T D"], w: Float[Tensor, "D H"], u: Float[Tensor, "H H"]) -> Float[Tensor, "B T H"]:
    h = torch.zeros(x.shape[0], w.shape[1])
    hs = []
    for x_t in x.unbind(1):
        h = torch.tanh(x_t @ w + h @ u)
        hs.append(h)
    return torch.stack(hs, dim=1)

def main() -> None:
    assert rnn(torch.randn(2, 5, 3), torch.randn(3, 4), torch.randn(4, 4)).shape == (2, 5, 4)

# ---- underscore_dims
@jaxtyped(typechecker=beartype)
def concat_features(a: Float[Tensor, "N _"], b: Float[Tensor, "N _"]) -> Float[Tensor, "N _"]:
    return torch.cat((a, b), dim=1)

def main() -> None:
    assert concat_features(torch.zeros(3, 2), torch.zeros(3, 5)).shape == (3, 7)

# ---- union_narrowed_by_isinstance
def as_vector(x: Float[Tensor, "N"] | float, n: int) -> Float[Tensor, "N"]:
    if isinstance(x, Tensor):
        return x
    return torch.full((n,), x)

def shaped(rew: Float[Tensor, "N"], coef: Float[Tensor, "N"] | float) -> Float[Tensor, "N"]:
    return rew * coef + as_vector(coef, rew.size(0))

def main() -> None:
    assert shaped(torch.ones(4), 0.5).shape == (4,)
    assert shaped(torch.ones(4), torch.ones(4)).shape == (4,)

# ---- vmap_pairwise
def distance(a: Float[Tensor, "D"], b: Float[Tensor, "D"]) -> Float[Tensor, ""]:
    return (a - b).square().sum().sqrt()

def matrix(x: Float[Tensor, "N D"], y: Float[Tensor, "M D"]) -> Float[Tensor, "N M"]:
    rows = torch.vmap(distance, in_dims=(None, 0))
    out: Tensor = torch.vmap(rows, in_dims=(0, None))(x, y)
    return out

def main() -> None:
    assert matrix(torch.randn(4, 3), torch.randn(5, 3)).shape == (4, 5)
