"""For each operation in the tables, what it may be called with."""

from __future__ import annotations

from tests.typing.shapes import arguments_of_layers
from tests.typing.shapes.drawing import FLOATS, Call, Draw, Draws, K, L, N, P, call
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import Array, Axis, Literal, Many, Several, Value

INTS = ("int64", "int64", "int64", "int32")
ODDLY = ("float32", *INTS * 3)
MINUS = number(-1)


def shape_of(d: Draws, axes: tuple[Axis, ...]) -> Several:
    return Several(tuple(axis.size for axis in axes), listed=d.chance(0.3))


def alone(d: Draws) -> Call:
    return call(d.array())


def floats(d: Draws) -> Call:
    return call(d.array(None, *FLOATS))


def number_or(d: Draws, array: Array) -> Value:
    return d.pick(array, array, d.pick(number(2), Literal(0.5), Literal(True)))


def pair(d: Draws) -> Call:
    one = d.array()
    return call(one, number_or(d, d.like(one)))


def div(d: Draws) -> Call:
    out = pair(d)
    mode = d.maybe(Literal(d.pick("floor", "trunc")), 0.3) if d.torch else ...
    return call(*out.given, rounding_mode=mode)


def where(d: Draws) -> Call:
    mask = d.array(None, "bool", "bool", "bool", "uint8")
    one = d.like(mask, *FLOATS, "int64", "bool")
    return call(mask, number_or(d, one), number_or(d, d.like(one)))


def clamp(d: Draws) -> Call:
    one = d.array()
    return call(one, number_or(d, d.like(one)), number_or(d, d.like(one)))


def masked(d: Draws) -> Call:
    one = d.array()
    return call(one, d.like(one, "bool"), number(0))


def lerp(d: Draws) -> Call:
    one = d.array(None, *FLOATS)
    other = d.like(one)
    return call(one, other, number_or(d, d.like(other)))


def added(d: Draws) -> Call:
    one = d.array(None, *FLOATS)
    other = d.like(one, *FLOATS)
    return call(one, other, d.like(other, *FLOATS))


def bounded(d: Draws) -> Call:
    one = d.array(None, *FLOATS)
    return call(one, d.pick(d.like(one, *FLOATS), number(2), Literal(0.5)))


def filled(d: Draws) -> Call:
    return call(d.array(), number(1))


def turned(d: Draws) -> Call:
    one = d.array(least=1)
    return call(one, d.places(len(one.axes or ())))


def rolled(d: Draws) -> Call:
    return call(d.array(), number(1))


def triangle(d: Draws) -> Call:
    return call(d.array(least=1), d.maybe(number(1)))


def sizes(d: Draws) -> Call:
    axes = d.shape(0 if not d.torch else 1)
    if d.torch and d.chance(0.5):
        return call(*(axis.size for axis in axes), dtype=d.dtype())
    return call(shape_of(d, axes) if len(axes) != 1 else axes[0].size, dtype=d.dtype())


def full(d: Draws) -> Call:
    return call(shape_of(d, d.shape()), d.pick(number(1), Literal(0.5), Literal(True)), dtype=d.dtype())


def arange(d: Draws) -> Call:
    bounds = [d.pick(d.size(), number(0), number(7), L - number(1)) for _ in range(d.pick(1, 1, 2, 3))]
    if len(bounds) == 3:
        bounds[2] = number(d.pick(1, 2, -1))
    return call(*bounds, d.maybe(Literal(2.5), 0.1), dtype=d.dtype())


def linspace(d: Draws) -> Call:
    return call(number(0), d.pick(number(3), Literal(1.0)), d.maybe(d.size(), 1.0 if d.torch else 0.7), dtype=d.dtype())


def eye(d: Draws) -> Call:
    return call(d.size(), d.maybe(d.size()), dtype=d.dtype())


def like(d: Draws) -> Call:
    return call(d.array(), dtype=d.dtype())


def full_like(d: Draws) -> Call:
    return call(d.array(), d.pick(number(1), Literal(0.5)), dtype=d.dtype())


def randint(d: Draws) -> Call:
    return call(number(5), shape_of(d, d.shape()), dtype=d.dtype())


def randint_of(d: Draws) -> Call:
    if d.chance(0.5):
        return randint(d)
    return call(number(0), number(5), shape_of(d, d.shape()), dtype=d.dtype())


def randperm(d: Draws) -> Call:
    return call(d.size(), dtype=d.dtype())


def multinomial(d: Draws) -> Call:
    return call(d.array(d.shape(1, 3), "float32"), d.pick(number(1), d.size()), Literal(True))


def new(d: Draws) -> Call:
    out = sizes(d)
    return call(d.array(), *out.given, **out.named)


def new_full(d: Draws) -> Call:
    out = full(d)
    return call(d.array(), *out.given, **out.named)


def numbers(d: Draws, rank: int) -> Value:
    if not rank:
        return d.pick(number(1), number(2), Literal(0.5), Literal(True)) if d.chance(0.2) else number(3)
    return Several(tuple(numbers(d, rank - 1) for _ in range(d.pick(1, 2))), listed=True)


def data(d: Draws) -> Call:
    kind = d.pick("array", "other", "numbers")
    if kind == "numbers":
        return call(numbers(d, d.pick(0, 1, 2)), dtype=d.dtype())
    array = d.array()
    return call(Array(array.axes, array.dtypes, d.torch != (kind == "other")), dtype=d.dtype())


def of_numpy(d: Draws) -> Call:
    array = d.array()
    return call(Array(array.axes, array.dtypes))


def new_tensor(d: Draws) -> Call:
    return call(d.array(), *data(d).given)


def one_hot(d: Draws) -> Call:
    return call(d.array(None, *ODDLY), d.maybe(d.pick(d.size(), MINUS)))


def items(d: Draws, count: int | None = None) -> Value:
    one = d.array()
    if d.chance(0.15):
        return Many(one, d.pick(None, d.size()))
    return Several((one, *(d.like(one) for _ in range(d.pick(0, 1, 1, 2)))), listed=d.chance(0.5))


def joined(more: int) -> Draw:
    def draw(d: Draws) -> Call:
        found = items(d)
        first = found.item if isinstance(found, Many) else found.items[0] if isinstance(found, Several) else None
        rank = len(first.axes or ()) if isinstance(first, Array) else 0
        return call(found, d.maybe(d.place(rank, more)))

    return draw


def stacked(d: Draws) -> Call:
    return call(items(d))


def rank_of(array: Array) -> int:
    return len(array.axes or ())


def split(d: Draws) -> Call:
    one = d.array(d.shape(1, 3))
    at = d.random.randrange(rank_of(one))
    size = (one.axes or ())[at].size or number(1)
    by = d.pick(
        d.size(), number(2), number(3), size, Several((number(1), size - number(1))), Several((number(1), number(2)))
    )
    return call(one, by, **{d.along: number(at) if d.chance(0.9) else d.place(rank_of(one))})


def chunk(d: Draws) -> Call:
    one = d.array(d.shape(1, 3))
    return call(one, d.pick(number(2), number(3), d.size()), d.maybe(d.place(rank_of(one))))


def unbind(d: Draws) -> Call:
    one = d.array(d.shape(1))
    return call(one, d.maybe(d.place(rank_of(one))))


def repeat(d: Draws) -> Call:
    if not d.torch:
        return again("axis")(d)
    one = d.array(d.shape(0, 3))
    times = [d.size() for _ in range(rank_of(one) + d.pick(0, 0, 1, -1))]
    return call(one, *([Several(tuple(times))] if d.chance(0.5) else times))


def tile(d: Draws) -> Call:
    times = tuple(d.size() for _ in range(d.pick(0, 1, 2, 3)))
    return call(d.array(d.shape(0, 3)), Several(times))


def again(name: str) -> Draw:
    def draw(d: Draws) -> Call:
        one = d.array(d.shape(1, 3))
        times = d.pick(number(2), d.size(), d.array((d.axis(),), "int64"))
        return call(one, times, **{name: d.maybe(d.place(rank_of(one)), 0.7)})

    return draw


def stretched(d: Draws, *, minus: bool = True) -> Call:
    one = d.array(d.shape(0, 3))
    to = [d.size() if axis.one and d.chance(0.7) else axis.size for axis in one.axes or ()]
    to = [MINUS if minus and d.chance(0.2) else size for size in to]
    front = [d.size() for _ in range(d.pick(0, 0, 1))]
    if d.chance(0.1):
        to = to[1:] or [d.size()]
    return call(one, Several((*front, *to)))


def expand(d: Draws) -> Call:
    out = stretched(d)
    if d.chance(0.5) and isinstance(out.given[1], Several) and out.given[1].items:
        return call(out.given[0], *out.given[1].items)
    return out


def two(d: Draws) -> Call:
    one = d.array()
    return call(one, d.like(one))


def broadcast_tensors(d: Draws) -> Call:
    one = d.array()
    return call(one, *(d.like(one) for _ in range(d.pick(0, 1, 2))))


def reduced(d: Draws) -> Call:
    one = d.array()
    along = d.maybe(d.places(rank_of(one)) if d.chance(0.9) else Literal(None), 0.8)
    keep = {d.keep: d.maybe(d.flag())}
    if d.chance(0.5):
        return call(one, along, **keep)
    return call(one, **{d.along: along}, **keep, dtype=d.dtype())


def one_axis(d: Draws) -> Call:
    one = d.array()
    along = d.maybe(d.place(rank_of(one)), 0.8)
    if d.chance(0.4):
        return call(one, along, **{d.keep: d.maybe(d.flag())})
    return call(one, **{d.along: along}, **{d.keep: d.maybe(d.flag())})


def greatest(d: Draws) -> Call:
    return d.pick(one_axis, one_axis, two)(d)


def norm(d: Draws) -> Call:
    one = d.array(None, *FLOATS, "int64")
    return call(one, number(2), d.maybe(d.places(rank_of(one))), **{d.keep: d.maybe(d.flag(), 0.4)})


def sort(d: Draws) -> Call:
    one = d.array()
    return call(one, **{d.along: d.maybe(d.place(rank_of(one)))})


def cumulated(d: Draws) -> Call:
    one = d.array()
    return call(one, d.maybe(d.place(rank_of(one)), 0.9), dtype=d.dtype())


def topk(d: Draws) -> Call:
    one = d.array(None, *FLOATS, "int64")
    return call(one, d.pick(number(1), number(2), d.size()), d.maybe(d.place(rank_of(one))))


def normalized(d: Draws) -> Call:
    one = d.array(None, *FLOATS)
    return call(one, dim=d.maybe(d.place(rank_of(one))))


def diff(d: Draws) -> Call:
    one = d.array(least=1)
    return call(one, d.maybe(d.pick(number(1), number(2)), 0.4), **{d.along: d.maybe(d.place(rank_of(one)))})


def merged(d: Draws, axes: tuple[Axis, ...]) -> list[Size]:
    """A shape with as many elements, or nearly."""
    found = [axis.size or number(1) for axis in axes]
    for _ in range(d.pick(0, 1, 2)):
        if len(found) > 1 and d.chance(0.6):
            at = d.random.randrange(len(found) - 1)
            found[at : at + 2] = [found[at] * found[at + 1]]
        else:
            found.insert(d.random.randint(0, len(found)), number(1))
    if d.chance(0.2):
        d.random.shuffle(found)
    if found and d.chance(0.5):
        found[d.random.randrange(len(found))] = MINUS
    if d.chance(0.15):
        found.insert(0, d.size())
    return found


def reshape(d: Draws) -> Call:
    one = d.array()
    to = merged(d, one.axes or ())
    return call(one, Several(tuple(to)) if len(to) != 1 or d.chance(0.5) else to[0])


def view(d: Draws) -> Call:
    one = d.array()
    to = merged(d, one.axes or ())
    return call(one, *([Several(tuple(to))] if d.chance(0.5) or not to else to))


def view_as(d: Draws) -> Call:
    one = d.array()
    to = merged(d, one.axes or ())
    return call(one, d.array([d.axis(size) for size in to if size != MINUS]))


def flatten(d: Draws) -> Call:
    one = d.array()
    if not d.torch:
        return call(one)
    return call(one, d.maybe(d.place(rank_of(one)), 0.7), d.maybe(d.place(rank_of(one))))


def unflatten(d: Draws) -> Call:
    front, sizes_ = d.shape(0, 2), d.shape(1, 3)
    whole = number(1)
    for axis in sizes_:
        whole = whole * (axis.size or number(1))
    asked = [axis.size or number(1) for axis in sizes_]
    if d.chance(0.4):
        asked[0] = MINUS
    one = d.array([*front, Axis(whole), *d.shape(0, 1)])
    return call(one, number(len(front)), Several(tuple(asked)))


def squeezed(d: Draws) -> Call:
    one = d.array()
    return call(one, **{d.along: d.maybe(d.places(rank_of(one)), 0.7)})


def unsqueezed(d: Draws) -> Call:
    one = d.array(d.shape(0, 3))
    return call(one, d.place(rank_of(one), 1))


def order(d: Draws, rank: int) -> list[Value]:
    found = list(range(rank))
    d.random.shuffle(found)
    if found and d.chance(0.1):
        found[0] = d.pick(found[-1], rank, -1)
    return [number(at) for at in found]


def permuted(d: Draws) -> Call:
    one = d.array()
    return call(one, Several(tuple(order(d, rank_of(one)))))


def transposed(d: Draws) -> Call:
    return swapped(d) if d.torch else d.pick(permuted, alone)(d)


def swapped(d: Draws) -> Call:
    one = d.array(least=1)
    return call(one, d.place(rank_of(one)), d.place(rank_of(one)))


def moved(d: Draws) -> Call:
    if d.chance(0.5):
        return swapped(d)
    one = d.array(d.shape(2))
    return call(one, *(Several(tuple(order(d, rank_of(one))[:2])) for _ in range(2)))


def gather(d: Draws) -> Call:
    one = d.array()
    at = d.place(rank_of(one))
    axes = [*d.near(one.axes or ())]
    if axes and at.number is not None and -len(axes) <= at.number < len(axes):
        axes[at.number] = d.axis()
    return call(one, at, d.array(axes, *ODDLY))


def scatter(d: Draws) -> Call:
    out = gather(d)
    one, at, index = out.given
    assert isinstance(one, Array)
    assert isinstance(index, Array)
    source = Array(d.near(index.axes or ()), one.dtypes, d.torch)
    return call(one, at, index, source)


def scatter_value(d: Draws) -> Call:
    out = scatter(d)
    return out if d.chance(0.5) else call(*out.given[:3], number(0))


def take_along(d: Draws) -> Call:
    one, at, index = gather(d).given
    return call(one, index, at)


def index_select(d: Draws) -> Call:
    one = d.array()
    return call(one, d.place(rank_of(one)), d.array(d.shape(1, 1) if d.chance(0.8) else d.shape(0, 2), *ODDLY))


def index_write(d: Draws) -> Call:
    one = d.array(d.shape(1))
    at, index = d.random.randrange(rank_of(one)), d.axis()
    axes = [*(one.axes or ())]
    axes[at] = index
    return call(one, number(at), d.array([index], "int64"), Array(tuple(axes), one.dtypes, d.torch))


def index_sum(d: Draws) -> Call:
    one, at, index, source = index_write(d).given
    assert isinstance(source, Array)
    return call(one, at, index, Array(d.near(source.axes or ()), source.dtypes, d.torch))


def scatter_reduced(d: Draws) -> Call:
    return call(*scatter(d).given, reduce=Literal("sum"))


def padded(d: Draws) -> Call:
    one = d.array(d.shape(1), "float32")
    parts = [Array((d.axis(), *d.near((one.axes or ())[1:])), one.dtypes, d.torch) for _ in range(d.pick(1, 2, 3))]
    return call(Several(tuple(parts), listed=True), d.maybe(Literal(d.chance(0.5))))


def index_fill(d: Draws) -> Call:
    return call(*index_write(d).given[:3], number(0))


def narrow(d: Draws) -> Call:
    one = d.array()
    return call(one, d.place(rank_of(one)), number(0), d.pick(number(1), number(2), d.size()))


def take(d: Draws) -> Call:
    one = d.array()
    index = d.array(d.shape(0, 2), *ODDLY) if d.torch or d.chance(0.7) else number(0)
    return call(one, index, **({} if d.torch else {"axis": d.maybe(d.place(rank_of(one)), 0.7)}))


def masked_select(d: Draws) -> Call:
    one = d.array()
    return call(one, d.like(one, "bool"))


def nonzero(d: Draws) -> Call:
    return call(d.array(), **({"as_tuple": d.maybe(d.flag())} if d.torch else {}))


def searchsorted(d: Draws) -> Call:
    return call(d.array((d.axis(),), "float32"), d.pick(d.array(None, "float32"), number(1)), right=d.maybe(d.flag()))


def bincount(d: Draws) -> Call:
    one = d.array((d.axis(),), "int64")
    return call(one, d.maybe(d.like(one, "float32"), 0.3))


def diagonal(d: Draws) -> Call:
    one = d.array(d.shape(2))
    ends = [d.place(rank_of(one)), d.place(rank_of(one))] if d.chance(0.5) else []
    return call(one, d.pick(number(0), number(0), number(1), number(-1)), *ends)


def square(d: Draws) -> Call:
    return diagonal(d) if d.chance(0.5) else call(d.array([d.axis(N)] * 2))


def diag(d: Draws) -> Call:
    return call(d.array(d.pick(d.shape(1, 2), [d.axis(N)] * 2)), d.maybe(d.pick(number(0), number(1), number(-1))))


def embedding(d: Draws) -> Call:
    return call(d.array(d.shape(0, 3), *ODDLY), d.matrix(N, K))


def reduction(d: Draws) -> dict[str, Value]:
    return {"reduction": d.maybe(Literal(d.pick("none", "mean", "sum")), 0.8)}


def loss(d: Draws) -> Call:
    one = d.array(None, *FLOATS)
    return call(one, d.like(one), **reduction(d))


def classes(d: Draws) -> Call:
    axes = d.shape(1)
    target = axes if d.chance(0.3) else (*axes[:1], *axes[2:]) if len(axes) > 1 else ()
    kinds = FLOATS if len(target) == len(axes) and d.chance(0.7) else ODDLY
    return call(d.array(axes, "float32"), d.array(d.near(target), *kinds), **reduction(d))


def similarity(d: Draws) -> Call:
    one = d.array(None, *FLOATS)
    return call(one, d.like(one), dim=d.maybe(d.place(rank_of(one))))


def matmul(d: Draws) -> Call:
    kinds = d.pick(FLOATS, FLOATS, ("int64",), ODDLY)
    batch = [axis.size or N for axis in d.shape(0, 2)]
    left = d.pick((N, L), (L,), (*batch, N, L))
    return call(d.matrix(*left, dtypes=kinds), d.matrix(*d.pick((L, K), (L,), (*batch, L, K)), dtypes=kinds))


def sized(*shapes: tuple[Size, ...]) -> Draw:
    def draw(d: Draws) -> Call:
        kinds = d.pick(("float32",), ("float32",), FLOATS, ("int64",))
        return call(*(d.matrix(*shape, dtypes=kinds) for shape in shapes))

    return draw


def vectors(d: Draws) -> Call:
    return d.pick(sized((N,), (L,)), sized((N,), (N,)), two)(d)


def dot(d: Draws) -> Call:
    return d.pick(sized((N,), (N,)), two if d.torch else matmul)(d)


def inner(d: Draws) -> Call:
    return d.pick(sized((N,), (N,)), sized((K, N), (L, N)), sized((P, K, N), (N,)), two)(d)


def linear(d: Draws) -> Call:
    return d.pick(sized((N, L), (K, L), (K,)), sized((P, N, L), (K, L)), sized((L,), (K, L)))(d)


def cdist(d: Draws) -> Call:
    return d.pick(sized((N, L), (K, L)), sized((P, N, L), (P, K, L)), sized((P, N, L), (K, L)))(d)


EQUATIONS: list[tuple[str, tuple[Size, ...], tuple[Size, ...]]] = [
    ("nk,kl->nl", (N, K), (K, L)), ("nk,nk->n", (N, K), (N, K)), ("n k, n l", (N, K), (N, L)),
    ("pnk,pkl->pnl", (P, N, K), (P, K, L)), ("nn,nk->nk", (N, N), (N, K)), ("n,k->kn", (N,), (K,)),
    ("nk,kl->nz", (N, K), (K, L)), ("...k,kl->...l", (N, K), (K, L)),
]  # fmt: skip


def einsum(d: Draws) -> Call:
    text, one, other = d.pick(*EQUATIONS)
    return call(Literal(text), *sized(one, other)(d).given)


FUNCTIONS: dict[str, Draw] = {
    **dict.fromkeys(
        (
            "add", "sub", "subtract", "mul", "multiply", "floor_divide", "remainder", "pow", "power", "eq", "ne",
            "not_equal", "lt", "less", "le", "less_equal", "gt", "greater", "ge", "greater_equal", "bitwise_and",
            "bitwise_or", "bitwise_xor", "minimum", "maximum", "fmin", "fmax", "logical_and", "logical_or",
            "logical_xor", "isclose", "copy_", "add_", "sub_", "mul_", "div_", "fmod", "logaddexp", "arctan2", "hypot",
        ),
        pair,
    ),
    **dict.fromkeys(("div", "divide", "true_divide"), div),
    **dict.fromkeys(
        (
            "exp", "log", "log2", "log10", "log1p", "expm1", "sqrt", "rsqrt", "sin", "cos", "tan", "tanh", "sigmoid",
            "softplus", "gelu", "silu", "logsigmoid", "erf", "elu", "mish", "celu", "selu", "softsign", "abs",
            "absolute", "neg", "negative", "clone", "detach", "contiguous", "copy", "relu", "leaky_relu", "cpu", "cuda",
            "dropout", "requires_grad_", "nan_to_num", "square", "zero_", "positive", "ascontiguousarray", "detach_",
            "isnan", "isfinite", "isinf", "logical_not", "signbit", "sign", "floor", "ceil", "round", "trunc", "sgn",
            "reciprocal", "arccos", "arcsin", "arctan", "sinh", "cosh", "relu_", "uniform_", "normal_", "exponential_",
            "log_", "exp_", "sqrt_", "neg_", "tanh_", "sigmoid_", "diag_embed", "fliplr", "flipud", "bernoulli",
            "ravel", "t", "adjoint", "argwhere", "unique",
        ),
        alone,
    ),
    "where": where,
    **dict.fromkeys(("clamp", "clip", "clamp_"), clamp),
    **dict.fromkeys(("masked_fill", "masked_fill_"), masked),
    **dict.fromkeys(("lerp", "lerp_"), lerp),
    **dict.fromkeys(("fill_", "fill_diagonal_"), filled),
    "flip": turned,
    "roll": rolled,
    **dict.fromkeys(("tril", "triu"), triangle),
    **dict.fromkeys(("addcmul", "addcdiv"), added),
    **dict.fromkeys(("clamp_min", "clamp_max", "clamp_min_", "clamp_max_"), bounded),
    **dict.fromkeys(("index_fill", "index_fill_"), index_fill),
    **dict.fromkeys(("index_add", "index_copy"), index_sum),
    "scatter_reduce": scatter_reduced,
    "pad_sequence": padded,
    **dict.fromkeys(("index_add_", "index_copy_"), index_write),
    **dict.fromkeys(("scatter", "scatter_"), scatter_value),
    **dict.fromkeys(("scatter_add", "scatter_add_"), scatter),
    **dict.fromkeys(("zeros", "ones", "empty", "rand", "randn"), sizes),
    **dict.fromkeys(("zeros_like", "ones_like", "empty_like", "rand_like", "randn_like"), like),
    **dict.fromkeys(("full_like", "randint_like"), full_like),
    "full": full,
    "arange": arange,
    "linspace": linspace,
    "eye": eye,
    "randint": randint_of,
    "randperm": randperm,
    "multinomial": multinomial,
    **dict.fromkeys(("tensor", "as_tensor", "array", "asarray"), data),
    "from_numpy": of_numpy,
    "one_hot": one_hot,
    "stack": joined(1),
    **dict.fromkeys(("cat", "concatenate", "concat"), joined(0)),
    **dict.fromkeys(("hstack", "vstack", "column_stack"), stacked),
    **dict.fromkeys(("split", "tensor_split", "array_split"), split),
    "chunk": chunk,
    "unbind": unbind,
    "repeat": repeat,
    "tile": tile,
    "repeat_interleave": again("dim"),
    "broadcast_to": stretched,
    "broadcast_tensors": broadcast_tensors,
    **dict.fromkeys(
        (
            "sum", "nansum", "prod", "mean", "nanmean", "std", "var", "amax", "amin", "argmax", "argmin", "any", "all",
            "logsumexp", "count_nonzero", "std_mean", "var_mean",
        ),
        reduced,
    ),
    **dict.fromkeys(("max", "min", "median"), greatest),
    "norm": norm,
    **dict.fromkeys(("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"), cumulated),
    **dict.fromkeys(("softmax", "log_softmax", "softmin"), cumulated),
    **dict.fromkeys(("sort", "argsort"), sort),
    "topk": topk,
    "normalize": normalized,
    "diff": diff,
    "reshape": reshape,
    "flatten": flatten,
    "unflatten": unflatten,
    "squeeze": squeezed,
    **dict.fromkeys(("unsqueeze", "expand_dims"), unsqueezed),
    "permute": permuted,
    "transpose": transposed,
    **dict.fromkeys(("swapaxes", "swapdims"), swapped),
    **dict.fromkeys(("moveaxis", "movedim"), moved),
    "gather": gather,
    **dict.fromkeys(("take_along_dim", "take_along_axis"), take_along),
    "index_select": index_select,
    "narrow": narrow,
    "take": take,
    "masked_select": masked_select,
    "nonzero": nonzero,
    "searchsorted": searchsorted,
    "bincount": bincount,
    "diagonal": square,
    "diag": diag,
    "embedding": embedding,
    **dict.fromkeys(
        (
            "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
            "binary_cross_entropy_with_logits", "kl_div",
        ),
        loss,
    ),
    **dict.fromkeys(("cross_entropy", "nll_loss"), classes),
    "cosine_similarity": similarity,
    "matmul": matmul,
    "bmm": sized((P, N, L), (P, L, K)),
    "mm": sized((N, L), (L, K)),
    "mv": sized((N, L), (L,)),
    "dot": dot,
    "outer": vectors,
    "inner": inner,
    "einsum": einsum,
    "linear": linear,
    "cdist": cdist,
    **arguments_of_layers.FUNCTIONS,
}  # fmt: skip
METHODS: dict[str, Draw] = {
    **FUNCTIONS,
    "view": view,
    "reshape": view,
    "expand": expand,
    **dict.fromkeys(("expand_as", "view_as", "reshape_as"), view_as),
    "expand_as": two,
    **dict.fromkeys(("new_zeros", "new_ones", "new_empty"), new),
    "new_full": new_full,
    "new_tensor": new_tensor,
    **arguments_of_layers.METHODS,
}
"""Methods are called with the array first."""
ATTRIBUTES: dict[str, Draw] = dict.fromkeys(("T", "mT"), alone)
