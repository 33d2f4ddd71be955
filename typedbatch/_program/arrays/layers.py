"""Layers of torch: the results of their calls, by the arguments of their constructors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from typedbatch._program.arrays import convolution, losses
from typedbatch._program.arrays.arguments import (
    Axes,
    UnsureError,
    apart,
    array_and_axes,
    array_of,
    axes_of,
    flag_of,
    of_torch,
    require,
    sized,
    understood,
)
from typedbatch._program.arrays.convolution import Constructor, of_input
from typedbatch._program.arrays.indexing import embedding
from typedbatch._program.arrays.joining import glu
from typedbatch._program.arrays.pointwise import broadcast
from typedbatch._program.arrays.reshaping import flatten, unflatten
from typedbatch._program.arrays.sizes import Size, number
from typedbatch._program.arrays.values import (
    ASKED,
    UNKNOWN,
    Arguments,
    Array,
    Axis,
    Layer,
    Literal,
    MismatchError,
    Operation,
    Several,
    Value,
    sizes_of,
)


def require_last(array: Array, shape: Value, name: str) -> Array:
    """Return an array after checking that its last axes are of a shape.

    Raises:
        MismatchError: They certainly are not.
        UnsureError: It is not known.
    """
    axes, last = axes_of(array), sizes_of(shape)
    if last is None or len(last) > len(axes):
        raise UnsureError
    for at, axis in enumerate(last[::-1], 1):
        require(axes, -at, axis.size, name, array)
    return array


def _normalized(name: str) -> Operation:
    """Return the operation ``layer_norm(x, normalized_shape)``, which checks the last axes."""

    @understood(5, "normalized_shape", "weight", "bias", "eps")
    def call(arguments: Arguments) -> Value:
        return require_last(array_of(arguments), arguments.get(1, "normalized_shape"), name)

    return call


@understood(8, "num_groups", "weight", "bias", "eps", "running_mean", "running_var", "training", "momentum")
def of_channels(arguments: Arguments) -> Value:
    """Return the result of ``group_norm(x, groups)``, ``batch_norm(x, mean, var)``."""
    return array_of(arguments)


_MASKS: Final = (
    "mask", "is_causal", "src_mask", "src_key_padding_mask", "tgt_mask", "tgt_is_causal", "tgt_key_padding_mask",
    "memory_mask", "memory_is_causal", "memory_key_padding_mask",
)  # fmt: skip


def _require_alike(one: Axis, other: Axis, what: str, of: str) -> None:
    if apart(one, other):
        raise MismatchError(f"{what}: {of} of {one} and {other}")


@understood(7, "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa")
def scaled_dot_product_attention(arguments: Arguments) -> Value:
    """Return the result of ``scaled_dot_product_attention(q, k, v)``, ``(*, L, D)``, ``(*, S, D)``, ``(*, S, E)``."""
    what = "scaled_dot_product_attention"
    arrays = [array_of(arguments, at, word) for at, word in enumerate(("query", "key", "value"))]
    query, key, value = (axes_of(array) for array in arrays)
    if min(len(query), len(key), len(value)) < 2:
        raise UnsureError
    _require_alike(query[-1], key[-1], what, "queries and keys")
    _require_alike(key[-2], value[-2], what, "keys and values")
    if "enable_gqa" in arguments.named:
        before: Axes | None = query[:-2]
    else:
        rows = [tuple(ASKED if axis.one else axis for axis in axes[:-2]) for axes in (query, key, value)]
        before = broadcast(rows, what)
    return Array((*(before or ()), query[-2], value[-1]), arrays[2].dtypes, torch=True)


def multihead_attention(made: Arguments) -> Operation:
    """Return the call of ``MultiheadAttention(embed_dim, num_heads)``: outputs, and weights per query and key."""
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
        _require_alike(key[at], value[at], name, "keys and values")
        if len(query) == 3:
            _require_alike(query[1 - at], key[1 - at], name, "rows of queries and keys")
        output = Array(query, None, torch=True)
        if arguments.flag(4, "need_weights") is False and "need_weights" in arguments.named:
            return Several((output, Literal(None)))
        rows = (query[1 - at],) if len(query) == 3 else ()
        return Several((output, Array((*rows, query[at], key[at]), None, torch=True)))

    return call


def _of_width(name: str, *inputs: str) -> Constructor:
    """Return the constructor of ``TransformerEncoderLayer(d_model, nhead)``, which keeps the shape of its input."""

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


def _of_layers(made: Arguments) -> Operation:
    """Return the call of ``TransformerEncoder(layer, num_layers)``."""
    layer = made.get(0, "encoder_layer", "decoder_layer")
    return layer.call if isinstance(layer, Layer) else lambda arguments: None


ONE = number(1)


def _of_last(name: str, inside: str, outside: str) -> Constructor:
    """Return the constructor of ``Linear(in_features, out_features)``, which changes the size of the last axis."""

    def resized(made: Arguments, array: Array) -> Array:
        axes = axes_of(array)
        if not axes:
            raise UnsureError
        require(axes, -1, made.get(0, inside), name, array)
        return Array((*axes[:-1], sized(made.get(1, outside))), None, torch=True)

    return of_input(resized)


def embedded(made: Arguments) -> Operation:
    """Return the call of ``Embedding(num_embeddings, embedding_dim)``."""
    rows = sized(made.get(0, "num_embeddings")), sized(made.get(1, "embedding_dim"))

    def call(arguments: Arguments) -> Value:
        return embedding(Arguments((*arguments.given[:1], Array(rows, None, torch=True)), torch=True))

    return call


def flattened(made: Arguments) -> Operation:
    """Return the call of ``Flatten(start_dim=1, end_dim=-1)``."""
    first, last = made.get(0, "start_dim"), made.get(1, "end_dim")
    given = (first if made.has(0, "start_dim") else ONE, last if made.has(1, "end_dim") else number(-1))
    return lambda arguments: flatten(Arguments((*arguments.given[:1], *given), torch=True))


def unflattened(made: Arguments) -> Operation:
    """Return the call of ``Unflatten(dim, sizes)``."""
    given = (made.get(0, "dim"), made.get(1, "unflattened_size"))
    return lambda arguments: unflatten(Arguments((*arguments.given[:1], *given), torch=True))


def halved(made: Arguments) -> Operation:
    """Return the call of ``GLU(dim=-1)``."""
    at = made.get(0, "dim") if made.has(0, "dim") else number(-1)
    return lambda arguments: glu(Arguments((*arguments.given[:1], at), torch=True))


def _bilinear(made: Arguments) -> Operation:
    """Return the call of ``Bilinear(in1_features, in2_features, out_features)``."""
    takes = made.get(0, "in1_features"), made.get(1, "in2_features")

    @understood(2, "input1", "input2")
    def call(arguments: Arguments) -> Value:
        arrays = array_of(arguments, 0, "input1"), array_of(arguments, 1, "input2")
        for array, features in zip(arrays, takes, strict=True):
            require(axes_of(array), -1, features, "Bilinear", array)
        return Array((*axes_of(arrays[0])[:-1], sized(made.get(2, "out_features"))), None, torch=True)

    return call


def _normal_of_last(name: str) -> Constructor:
    """Return the constructor of ``LayerNorm(normalized_shape)``, which checks the last axes."""
    return of_input(lambda made, array: require_last(array, made.get(0, "normalized_shape"), name).typed(None))


def _normal_of_channels(name: str, place: int, least: int, word: str) -> Constructor:
    """Return the constructor of ``BatchNorm1d(num_features)``, which checks the size of the second axis."""

    def checked(made: Arguments, array: Array) -> Array:
        axes = axes_of(array)
        if len(axes) < least:
            raise UnsureError
        require(axes, 1, made.get(place, word), name, array)
        return array.typed(None)

    return of_input(checked)


# ---- sequences -------------------------------------------------------------------------------------------------------


def _require_state(name: str, state: Value, rows: Axis, width: Axis) -> None:
    """Refuse an initial state whose rows are not those of the input, or whose width is not that of the layer."""
    states = state.items if isinstance(state, Several) else (state,)
    for one in states:
        if isinstance(one, Array) and one.axes is not None and len(one.axes) == 3:
            _require_alike(one.axes[1], rows, name, "rows of the state and the input")
            _require_alike(one.axes[2], width, name, "widths of the state and the layer")


def _recurrent(name: str) -> Constructor:
    """Return the constructor of ``LSTM(input_size, hidden_size, num_layers)``, which returns outputs and states."""

    def construct(made: Arguments) -> Operation:
        takes, hidden = made.get(0, "input_size"), made.get(1, "hidden_size")
        layers = made.get(2, "num_layers") if made.has(2, "num_layers") else ONE
        rows_first, both = made.flag(4, "batch_first"), made.flag(6, "bidirectional")

        @understood(2, "input", "hx")
        def call(arguments: Arguments) -> Value:
            array, axes = array_and_axes(arguments, 0, "input")
            if len(axes) != 3 or both is None or "proj_size" in made.named or len(made.given) > 7:
                raise UnsureError
            require(axes, -1, takes, name, array)
            ways = number(2 if both else 1)
            before = arguments.get(1, "hx")
            if rows_first is not None:
                _require_state(name, before, axes[0 if rows_first else 1], sized(hidden))
            width = Axis(hidden * ways) if isinstance(hidden, Size) else UNKNOWN
            rows = UNKNOWN if rows_first is None else axes[0 if rows_first else 1]
            depth = Axis(layers * ways) if isinstance(layers, Size) else UNKNOWN
            state = Array((depth, rows, sized(hidden)), None, torch=True)
            outputs = Array((*axes[:-1], width), None, torch=True)
            return Several((outputs, Several((state, state)) if name == "LSTM" else state))

        return call

    return construct


def _cell(name: str) -> Constructor:
    """Return the constructor of ``GRUCell(input_size, hidden_size)``, which returns the next state."""

    def construct(made: Arguments) -> Operation:
        once = _of_last(name, "input_size", "hidden_size")(made)

        def call(arguments: Arguments) -> Value:
            state = once(Arguments(arguments.given[:1], torch=True))
            return Several((state, state)) if name == "LSTMCell" else state

        return call

    return construct


def sequential(made: Arguments) -> Operation:
    """Return the call of ``Sequential(one, other)``, where each layer takes the result of the layer before."""

    def call(arguments: Arguments) -> Value:
        value: Value = arguments.get(0)
        for layer in made.given:
            if not isinstance(layer, Layer) or not isinstance(value, Array):
                return None
            value = layer.call(Arguments((value,), torch=True))
        return value

    return call


def contradiction(made: Arguments) -> MismatchError | None:
    """Return why the layers of a ``Sequential`` do not fit each other, whatever its input is; None if they may.

    Inputs of several ranks are tried, since one has the right rank. The report is that of the layer farthest back.
    """
    farthest, found = -1, None
    for rank in (2, 3, 4, 1, 5):
        value: Value = Array((UNKNOWN,) * rank, None, torch=True)
        for at, layer in enumerate(made.given):
            if not isinstance(layer, Layer) or layer.owner is not None or not isinstance(value, Array):
                return None
            try:
                value = layer.call(Arguments((value,), torch=True))
            except MismatchError as error:
                if at > farthest:
                    farthest, found = at, error
                break
        else:
            return None
    return found


def loss(name: str) -> Constructor:
    """Return the constructor of ``MSELoss(reduction="mean")``, which calls the function of the loss."""

    def construct(made: Arguments) -> Operation:
        named = {"reduction": made.named["reduction"]} if "reduction" in made.named else {}
        operation = losses.FUNCTIONS[name]
        return lambda arguments: operation(Arguments(arguments.given, {**arguments.named, **named}, torch=True))

    return construct


LOSSES: Final = {
    "BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "CrossEntropyLoss": "cross_entropy", "HuberLoss": "huber_loss", "KLDivLoss": "kl_div", "L1Loss": "l1_loss",
    "MSELoss": "mse_loss", "NLLLoss": "nll_loss", "SmoothL1Loss": "smooth_l1_loss",
}  # fmt: skip
"""Losses by the names of their classes, and the functions that they call."""
_SAME: Final[Sequence[str]] = (
    "CELU", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "ELU", "GELU", "Hardsigmoid", "Hardswish", "Hardtanh",
    "Identity", "LeakyReLU", "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "ReLU", "ReLU6", "SELU", "SiLU", "Sigmoid",
    "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Threshold", "AlphaDropout",
    "Hardshrink", "RReLU", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d",
)  # fmt: skip
LAYERS: Final[dict[str, Constructor]] = {
    **dict.fromkeys(_SAME, of_input(lambda made, array: array.typed(None))),
    **convolution.LAYERS,
    **{
        f"BatchNorm{dims}d": _normal_of_channels(f"BatchNorm{dims}d", 0, 2 if dims == 1 else dims + 2, "num_features")
        for dims in (1, 2, 3)
    },
    "Bilinear": _bilinear,
    "Embedding": embedded,
    "Flatten": flattened,
    "GLU": halved,
    "GRU": _recurrent("GRU"),
    "GRUCell": _cell("GRUCell"),
    "GroupNorm": _normal_of_channels("GroupNorm", 1, 2, "num_channels"),
    "LSTM": _recurrent("LSTM"),
    "LSTMCell": _cell("LSTMCell"),
    "LayerNorm": _normal_of_last("LayerNorm"),
    "Linear": _of_last("Linear", "in_features", "out_features"),
    "MultiheadAttention": multihead_attention,
    "RMSNorm": _normal_of_last("RMSNorm"),
    "RNN": _recurrent("RNN"),
    "RNNCell": _cell("RNNCell"),
    "Sequential": sequential,
    "TransformerDecoder": _of_layers,
    "TransformerDecoderLayer": _of_width("TransformerDecoderLayer", "tgt", "memory"),
    "TransformerEncoder": _of_layers,
    "TransformerEncoderLayer": _of_width("TransformerEncoderLayer", "src"),
    "Unflatten": unflattened,
}
"""Layers by the names of their classes: functions from the arguments of a constructor to the call of the layer."""


def _of_linear(made: Arguments) -> dict[str, Value]:
    takes, gives = made.get(0, "in_features"), made.get(1, "out_features")
    weight = Array((sized(gives), sized(takes)), None, torch=True)
    return {"in_features": takes, "out_features": gives, "weight": weight}


def _of_embedding(made: Arguments) -> dict[str, Value]:
    rows, width = made.get(0, "num_embeddings"), made.get(1, "embedding_dim")
    weight = Array((sized(rows), sized(width)), None, torch=True)
    return {"num_embeddings": rows, "embedding_dim": width, "weight": weight}


ATTRIBUTES: Final[dict[str, Callable[[Arguments], dict[str, Value]]]] = {
    "Embedding": _of_embedding,
    "Linear": _of_linear,
}
"""Functions that return the attributes of a layer, given the arguments of its constructor."""
FUNCTIONS: Final[dict[str, Operation]] = {
    "layer_norm": of_torch(_normalized("layer_norm")),
    "rms_norm": of_torch(_normalized("rms_norm")),
    "group_norm": of_torch(of_channels),
    "batch_norm": of_torch(of_channels),
    "scaled_dot_product_attention": of_torch(scaled_dot_product_attention),
}
METHODS: Final[dict[str, Operation]] = {}
