"""Log-probabilities of the tokens of rollouts under a model: ``token_logp``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch
from torch import Tensor

from typedbatch._core.compiling import is_compiling
from typedbatch._core.lengths import require_tree
from typedbatch._core.meta import meta_of
from typedbatch._ops.conversion import torch_side
from typedbatch.errors import SettingError, StructureError
from typedbatch.posttraining.token_fields import as_bools, layout_of
from typedbatch.protocols import BatchProtocol
from typedbatch.sequences import as_lengths
from typedbatch.sequences import position_ids as positions_of


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
    model: CausalModel | Callable[..., Any], batch: BatchProtocol, *, temperature: float | None = None
) -> Tensor:
    """Return the log-probability of each token of the responses under a model, in nats.

    The logits of a token are those at the token before it, divided by the temperature of the sampler. They are taken in
    float32. Gradients flow to the model.

    Args:
        model: A :class:`CausalModel`, called as ``model(input_ids=, attention_mask=, position_ids=, use_cache=False)``.
        batch: Rollouts in any of the layouts, or one side of ``Pairs``.
        temperature: Temperature; None for that in the meta of the batch.

    Returns:
        A tensor of the shape of the layout's fields of tokens: ``(N, R)`` in ``split`` and ``left``, ``(N, T)`` in
        ``right``, and ``(tokens,)`` in ``ragged`` and ``packed``. It is 0 outside of ``response_mask``.

    Raises:
        SettingError: The temperature is missing, or is not above 0.
        MissingFieldError: The batch does not have the fields of any layout.
        StructureError: The model returns logits of another shape, a response has no token in front of it, or a token
            has an id that the model lacks. Ids of padding may be any.
    """
    tree: Any = require_tree(batch, "token_logp()")
    heat = _temperature(meta_of(tree).get("temperature") if temperature is None else temperature)
    layout = layout_of(tree)
    if layout in ("ragged", "packed"):
        return _of_packed(model, tree, heat)
    mask = as_bools(tree.response_mask, "response_mask")
    if layout == "split":
        masks = as_bools(tree.prompt_mask, "prompt_mask"), mask
        sides = zip(("prompt_ids", "response_ids"), masks, strict=True)
        ids = torch.cat([_ids_of_tokens(tree[name], there, name) for name, there in sides], 1)
        present = torch.cat(masks, 1)
    else:
        present = as_bools(tree.attention_mask, "attention_mask")
        ids = _ids_of_tokens(tree.input_ids, present, "input_ids")
    places = (present.long().cumsum(1) - 1).clamp(min=0)
    width = mask.shape[1]
    before = torch.cat([present.new_zeros(len(ids), 1), present[:, :-1]], 1)[:, ids.shape[1] - width :]
    _require_token_before(mask, before)
    chosen = _chosen(model, ids, present.long(), places, heat)
    return torch.where(mask, chosen[:, ids.shape[1] - width :], 0.0)


def _of_packed(model: Callable[..., Any], tree: Any, heat: float) -> Tensor:
    """Return the log-probabilities of tokens end to end."""
    if "cu_seqlens" in tree.__dict__:
        values, sizes = tree, as_lengths(tree.cu_seqlens.diff())
    else:
        values, sizes = tree.tokens.values, as_lengths(tree.tokens.lengths)
    mask = as_bools(values.response_mask, "response_mask")
    ids = _ids_of_tokens(values.input_ids, torch.ones_like(mask), "input_ids")
    places = torch_side().to_tensor(positions_of(sizes)).to(ids.device)
    _require_token_before(mask, places > 0)
    return torch.where(mask, _chosen(model, ids[None], None, places[None], heat)[0], 0.0)


def _chosen(model: Callable[..., Any], ids: Tensor, present: Tensor | None, places: Tensor, heat: float) -> Tensor:
    """Return the log-probability of each token; 0 for the first of a row."""
    output = model(input_ids=ids, attention_mask=present, position_ids=places, use_cache=False)
    logits: object = getattr(output, "logits", output)
    if not isinstance(logits, Tensor) or logits.shape[:-1] != ids.shape:
        got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
        raise StructureError(f"the model must return logits of shape {[*ids.shape, 'V']}, got {got}")
    words = logits.shape[-1]
    unknown = (ids >= words) if present is None else (ids >= words) & (present != 0)
    if not is_compiling() and bool(unknown.any()):  # torch.compile cannot look at values
        raise StructureError(f"a token has the id {int(ids[unknown][0])}, but the model has logits for {words} tokens")
    before = logits[:, :-1].float() / heat
    chosen = before.gather(-1, ids[:, 1:, None].clamp(max=words - 1))[..., 0] - before.logsumexp(-1)
    return torch.cat([chosen.new_zeros(len(ids), 1), chosen], 1)[:, : ids.shape[1]]


def _ids_of_tokens(ids: Tensor, present: Tensor, name: str) -> Tensor:
    """Return ids with 0 for those of padding that no vocabulary has, as -100, which a model would take for an index."""
    if not is_compiling() and bool(((ids < 0) & present).any()):
        row = ((ids < 0) & present).nonzero()[0].tolist()
        raise StructureError(f"the token at {row} has a negative id; padding is False in the mask of the tokens", name)
    return ids.clamp(min=0)


def _require_token_before(mask: Tensor, before: Tensor) -> None:
    if not is_compiling() and bool((mask & ~before).any()):  # torch.compile cannot look at values
        row = (mask & ~before).nonzero()[0].tolist()
        raise StructureError(f"the token at {row} has none before it, so no model predicts it", "response_mask")


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
