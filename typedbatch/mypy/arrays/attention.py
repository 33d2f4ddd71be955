"""Attention and transformers: queries, keys and values, and layers that keep the shape of what they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from typedbatch.mypy.arrays.asking import (
    Axes,
    UnsureError,
    apart,
    array_of,
    axes_of,
    flag_of,
    of_torch,
    require,
    understood,
)
from typedbatch.mypy.arrays.elementwise import broadcast
from typedbatch.mypy.arrays.values import (
    ASKED,
    Arguments,
    Array,
    Axis,
    Layer,
    Literal,
    MisfitError,
    Operation,
    Several,
    Value,
)

Constructor = Callable[[Arguments], Operation]
_MASKS: Final = (
    "mask", "is_causal", "src_mask", "src_key_padding_mask", "tgt_mask", "tgt_is_causal", "tgt_key_padding_mask",
    "memory_mask", "memory_is_causal", "memory_key_padding_mask",
)  # fmt: skip


def _require_same(one: Axis, other: Axis, what: str, of: str) -> None:
    if apart(one, other):
        raise MisfitError(f"{what}: {of} of {one} and {other}")


@understood(7, "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
def scaled_dot_product_attention(arguments: Arguments) -> Value:
    """``scaled_dot_product_attention(q, k, v)`` of ``(*rows, L, D)``, ``(*rows, S, D)`` and ``(*rows, S, E)``."""
    what = "scaled_dot_product_attention"
    arrays = [array_of(arguments, at, word) for at, word in enumerate(("query", "key", "value"))]
    query, key, value = (axes_of(array) for array in arrays)
    if min(len(query), len(key), len(value)) < 2:
        raise UnsureError
    _require_same(query[-1], key[-1], what, "queries and keys")
    _require_same(key[-2], value[-2], what, "keys and values")
    if "enable_gqa" in arguments.named:
        before: Axes | None = query[:-2]
    else:
        rows = [tuple(ASKED if axis.one else axis for axis in axes[:-2]) for axes in (query, key, value)]
        before = broadcast(rows, what)
    return Array((*(before or ()), query[-2], value[-1]), arrays[2].dtypes, torch=True)


def multihead_attention(made: Arguments) -> Operation:
    """``MultiheadAttention(embed_dim, num_heads)``: gives the outputs, and the weights of the keys for each query."""
    name, width = "MultiheadAttention", made.get(0, "embed_dim")
    others = [made.get(place, word) if made.has(place, word) else width for place, word in ((6, "kdim"), (7, "vdim"))]

    @understood(3, "query", "key", "value", "key_padding_mask", "need_weights", "attn_mask", "is_causal", array=False)
    def call(arguments: Arguments) -> Value:
        arrays = [array_of(arguments, at, word) for at, word in enumerate(("query", "key", "value"))]
        query, key, value = (axes_of(array) for array in arrays)
        if len(query) not in (2, 3) or not len(query) == len(key) == len(value):
            raise UnsureError
        for array, features in zip(arrays, (width, *others), strict=True):
            require(axes_of(array), -1, features, name, array)
        rows_first = flag_of(made, 8, "batch_first") and len(query) == 3
        at = 1 if rows_first else 0
        _require_same(key[at], value[at], name, "keys and values")
        if len(query) == 3:
            _require_same(query[1 - at], key[1 - at], name, "rows of queries and keys")
        output = Array(query, None, torch=True)
        if arguments.flag(4, "need_weights") is False and "need_weights" in arguments.named:
            return Several((output, Literal(None)))
        rows = (query[1 - at],) if len(query) == 3 else ()
        return Several((output, Array((*rows, query[at], key[at]), None, torch=True)))

    return call


def _of_width(name: str, *inputs: str) -> Constructor:
    """``TransformerEncoderLayer(d_model, nhead)``: keeps the shape of the first input."""

    def construct(made: Arguments) -> Operation:
        width = made.get(0, "d_model")

        @understood(len(inputs), *inputs, *_MASKS)
        def call(arguments: Arguments) -> Value:
            for at, word in enumerate(inputs):
                array = array_of(arguments, at, word)
                if array.axes:
                    require(array.axes, -1, width, name, array)
            return Array(array_of(arguments, 0, inputs[0]).axes, None, torch=True)

        return call

    return construct


def _stacked(made: Arguments) -> Operation:
    """``TransformerEncoder(layer, num_layers)``."""
    layer = made.get(0, "encoder_layer", "decoder_layer")
    return layer.call if isinstance(layer, Layer) else lambda arguments: None


LAYERS: Final[dict[str, Constructor]] = {
    "MultiheadAttention": multihead_attention,
    "TransformerDecoder": _stacked,
    "TransformerDecoderLayer": _of_width("TransformerDecoderLayer", "tgt", "memory"),
    "TransformerEncoder": _stacked,
    "TransformerEncoderLayer": _of_width("TransformerEncoderLayer", "src"),
}
FUNCTIONS: Final[dict[str, Operation]] = {"scaled_dot_product_attention": of_torch(scaled_dot_product_attention)}
METHODS: Final[dict[str, Operation]] = {}
