"""Log-probabilities of the tokens of rollouts under a model: ``token_logp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from typedbatch._core.compiling import is_compiling
from typedbatch._core.kinds import describe
from typedbatch._core.lengths import require_tree
from typedbatch._core.meta import meta_of
from typedbatch.errors import LeafError, SettingError, StructureError
from typedbatch.posttraining.model_inputs import ModelInputs, model_inputs
from typedbatch.protocols import BatchProtocol


class CausalModel(Protocol):
    """A model of the next token, such as a ``PreTrainedModel`` of transformers.

    It returns logits ``(N, T, V)``, or an object that has them as ``logits``. A packed batch has one row and no
    attention mask; ``position_ids`` begin at 0 with each sequence, and no token may attend to another sequence, which
    transformers does by itself.
    """

    def __call__(
        self, *, input_ids: Tensor, attention_mask: Tensor | None, position_ids: Tensor, use_cache: bool
    ) -> Any:
        """Return the logits of the token after each token."""
        ...


def token_logp(
    model: CausalModel | Callable[..., Any],
    batch: BatchProtocol,
    *,
    temperature: float | None = None,
    ids: Tensor | None = None,
    exact: bool = False,
) -> Tensor:
    """Return the log-probability of each token of the responses under a model, in nats.

    The logits of a token are those at the token before it, divided by the temperature of the sampler. They are taken in
    float32. Gradients flow to the model.

    Args:
        model: A :class:`CausalModel`, called as ``model(input_ids=, attention_mask=, position_ids=, use_cache=False)``.
        batch: Rollouts in any of the layouts, or ``chosen``, ``rejected`` or ``both`` of ``Pairs``.
        temperature: Temperature; None for that in the meta of the batch, which is 1 for sides of ``Pairs``.
        ids: Other tokens in the places of those of the batch, as ``teacher_ids``: int64, of the shape of the layout's
            fields of tokens and one more dimension, ``(N, R, K)``. Ids outside of ``response_mask`` may be any.
        exact: Whether to compute ``log_softmax().gather()``, to which the result is bit-identical then. By default the
            chosen logit minus ``logsumexp`` is computed, which keeps one tensor of the size of the logits less for the
            gradient. The two differ by rounding, by less than 1e-5 nats for logits from -40 to 40.

    Returns:
        A tensor of the shape of the layout's fields of tokens: ``(N, R)`` in ``split`` and ``left``, ``(N, T)`` in
        ``right``, and ``(tokens,)`` in ``ragged`` and ``packed``; with ``ids``, a tensor of their shape. It is 0
        outside of ``response_mask``.

    Raises:
        SettingError: The temperature is missing, or is not above 0.
        MissingFieldError: The batch does not have the fields of any layout.
        LeafError: A mask or ids are not tensors, or ids are not whole numbers.
        StructureError: The model returns logits of another shape, fields do not fit together, a mask is True where no
            token is, a response has no token in front of it, a token has an id that the model lacks, or ``ids`` has
            another shape. Ids of padding may be any.
    """
    tree: Any = require_tree(batch, "token_logp()")
    inputs = model_inputs(tree)
    heat = _temperature(meta_of(tree).get("temperature") if temperature is None else temperature)
    wanted, counts = _wanted(inputs, ids)
    logits = inputs.call(model)
    if not isinstance(logits, Tensor) or logits.shape[:-1] != inputs.ids.shape:
        got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise StructureError(f"the model must return logits of shape {[*inputs.ids.shape, 'V']}, got {got}")
    words = logits.shape[-1]
    unknown = ((wanted < 0) | (wanted >= words)) & counts
    if not is_compiling() and bool(unknown.any()):  # torch.compile cannot look at values
        which = "" if ids is None else " of ids="
        text = f"a token{which} has the id {int(wanted[unknown][0])}, but the model has logits for {words} tokens"
        raise StructureError(text)
    before, chosen_ids = logits[:, :-1].float() / heat, wanted[:, 1:].clamp(0, words - 1)
    if exact:
        chosen = before.log_softmax(-1).gather(-1, chosen_ids)
    else:
        chosen = before.gather(-1, chosen_ids) - before.logsumexp(-1, keepdim=True)
    chosen = torch.cat([chosen.new_zeros(len(chosen), 1, chosen.shape[-1]), chosen], 1)[:, : inputs.ids.shape[1]]
    return inputs.at_tokens(chosen[..., 0] if ids is None else chosen)


def _wanted(inputs: ModelInputs, ids: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return the tokens whose log-probabilities are wanted, ``(N, T, K)``, and where their ids must be right."""
    if ids is None:
        present = torch.ones_like(inputs.ids, dtype=torch.bool) if inputs.present is None else inputs.present
        return inputs.ids[..., None], present[..., None]
    given: Any = ids
    is_whole = isinstance(given, Tensor) and not given.is_floating_point() and given.dtype != torch.bool
    if not is_whole:
        raise LeafError(f"ids= must be a tensor of whole numbers, got {describe(given)}")
    if given.shape[:-1] != inputs.mask.shape:
        raise StructureError(f"ids= must be {[*inputs.mask.shape, 'K']}, got {list(given.shape)}")
    return inputs.at_places(given.long()), inputs.at_places(inputs.mask)[..., None]


def _temperature(value: Any) -> float:
    if value is None:
        raise SettingError("token_logp() needs the temperature of the sampler; pass temperature= or set it in the meta")
    try:
        number = float(value)
    except (TypeError, ValueError, RuntimeError):  # a tensor of several values raises the last
        number = 0.0
    if not 0 < number < float("inf"):
        raise SettingError(f"a temperature is a number above 0, got {value!r}")
    return number
