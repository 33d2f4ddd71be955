"""Random arguments for the functions of networks: convolutions, pools, attention and norms."""

from __future__ import annotations

from tests.typing.shapes.drawing import Call, Draw, Draws, K, L, N, P, call
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import Axis, Literal, Several, Value

SPATIAL = (L, K, number(8), number(9))


def counts(*sizes: int) -> Several:
    return Several(tuple(map(number, sizes)))


def window(d: Draws, dims: int) -> Value:
    return d.pick(number(2), number(3), counts(*(d.pick(1, 2) for _ in range(dims))))


def image(d: Draws, dims: int, channels: Size = K) -> tuple[Axis, ...]:
    rows = [N] if d.chance(0.7) else []
    return tuple(map(Axis, (*rows, channels, *(d.pick(*SPATIAL) for _ in range(dims)))))


def conv(dims: int) -> Draw:
    def draw(d: Draws) -> Call:
        kernel = [number(d.pick(1, 2, 3)) for _ in range(dims)]
        weight = d.array(d.near(tuple(map(Axis, (L, K, *kernel)))), "float32")
        named = {
            "stride": d.maybe(d.pick(number(2), counts(*[2] * dims)), 0.4),
            "padding": d.maybe(d.pick(number(1), Literal("same"), Literal("valid"), counts(*[1] * dims)), 0.5),
            "dilation": d.maybe(number(2), 0.2),
        }
        return call(d.array(image(d, dims), "float32"), weight, **named)

    return draw


def pool(dims: int, takes_dilation: bool) -> Draw:
    def draw(d: Draws) -> Call:
        named = {"stride": d.maybe(number(2), 0.4), "padding": d.maybe(number(1), 0.3)}
        more = {"dilation": d.maybe(number(2), 0.2)} if takes_dilation else {}
        return call(d.array(image(d, dims), "float32"), window(d, dims), **named, **more)

    return draw


def adaptive(dims: int) -> Draw:
    def draw(d: Draws) -> Call:
        sizes = d.pick(number(3), Several(tuple(d.pick(number(2), L, Literal(None)) for _ in range(dims))))
        return call(d.array(image(d, dims), "float32"), sizes)

    return draw


def padded(d: Draws) -> Call:
    one = d.array(d.shape(1, 3), "float32")
    by = counts(*(d.pick(0, 1, 2) for _ in range(2 * d.pick(1, 1, 2, 3))))
    return call(one, by)


def resized(d: Draws) -> Call:
    dims = d.pick(1, 2)
    one = d.array((Axis(N), Axis(K), *(Axis(d.pick(*SPATIAL)) for _ in range(dims))), "float32")
    return d.pick(
        call(one, d.pick(number(6), counts(*[5] * dims))),
        call(one, scale_factor=d.pick(number(2), Literal(0.5))),
    )


def patches(d: Draws) -> Call:
    named = {"stride": d.maybe(number(2), 0.4), "padding": d.maybe(number(1), 0.3), "dilation": d.maybe(number(2), 0.2)}
    return call(d.array(image(d, 2), "float32"), window(d, 2), **named)


def windows_of_axis(d: Draws) -> Call:
    one = d.array(d.shape(1, 3))
    return call(one, d.place(len(one.axes or ())), number(d.pick(1, 2, 3)), number(d.pick(1, 2)))


def attended(d: Draws) -> Call:
    rows = d.pick((), (P,), (N, P))
    shapes = (*rows, L, K), (*rows, N, K), (*rows, N, d.pick(K, P))
    arrays = [d.array(d.near(tuple(map(Axis, shape))), "float32") for shape in shapes]
    return call(*arrays, is_causal=d.maybe(Literal(True), 0.2))


def normalized(d: Draws) -> Call:
    one = d.array(tuple(map(Axis, (N, L, K))), "float32")
    return call(one, d.pick(Several((K,)), Several((L, K)), Several((N,))))


def grouped(d: Draws) -> Call:
    return call(d.array(tuple(map(Axis, (N, number(6), L))), "float32"), number(d.pick(1, 2, 3)))


def batched(d: Draws) -> Call:
    mean, var = (d.array((Axis(K),), "float32") for _ in range(2))
    return call(d.array(tuple(map(Axis, (N, K, L))), "float32"), mean, var)


def added(*shapes: tuple[Size, ...]) -> Draw:
    def draw(d: Draws) -> Call:
        return call(*(d.array(d.near(tuple(map(Axis, shape))), "float32") for shape in shapes))

    return draw


def gated(d: Draws) -> Call:
    one = d.array((Axis(N), Axis(d.pick(number(4), number(6), L, N * number(2)))), "float32")
    return call(one, d.maybe(d.place(2)))


FUNCTIONS: dict[str, Draw] = {
    **{f"conv{dims}d": conv(dims) for dims in (1, 2, 3)},
    **{f"max_pool{dims}d": pool(dims, True) for dims in (1, 2, 3)},
    **{f"avg_pool{dims}d": pool(dims, False) for dims in (1, 2, 3)},
    **{f"adaptive_avg_pool{dims}d": adaptive(dims) for dims in (1, 2, 3)},
    "pad": padded,
    "interpolate": resized,
    "unfold": patches,
    "scaled_dot_product_attention": attended,
    **dict.fromkeys(("layer_norm", "rms_norm"), normalized),
    "group_norm": grouped,
    "batch_norm": batched,
    "addmm": added((N, K), (N, L), (L, K)),
    "baddbmm": added((P, N, K), (P, N, L), (P, L, K)),
    "glu": gated,
}
METHODS: dict[str, Draw] = {"unfold": windows_of_axis}
