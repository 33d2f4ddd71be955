"""Inputs of a forward pass over rollouts in any layout: ``model_inputs``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from typedbatch._core.compiling import is_compiling
from typedbatch._core.kinds import describe
from typedbatch._ops.conversion import torch_side
from typedbatch.errors import LeafError, StructureError
from typedbatch.posttraining.token_fields import as_bools, layout_of
from typedbatch.sequences import as_lengths, whole_numbers
from typedbatch.sequences import position_ids as positions_of


class ModelInputs(NamedTuple):
    """Inputs of a model: one sequence in each row, or all sequences end to end in a single row."""

    ids: Tensor
    """Tokens, ``(N, T)`` or ``(1, tokens)``; 0 for padding that has a negative id."""
    present: Tensor | None
    """True where there is a token, ``(N, T)``; None for sequences end to end, which have no padding."""
    position_ids: Tensor
    """Position of each token in its sequence, from 0, in the shape of the ids."""
    mask: Tensor
    """True for tokens of responses, in the shape of the layout's fields of tokens."""

    def call(self, model: Callable[..., Any]) -> Any:
        """Return the ``logits`` of the model's output, or the output itself if it has none."""
        present = None if self.present is None else self.present.long()
        output = model(input_ids=self.ids, attention_mask=present, position_ids=self.position_ids, use_cache=False)
        return getattr(output, "logits", output)

    def at_tokens(self, values: Tensor) -> Tensor:
        """Return values ``(N, T, ...)`` in the shape of the layout's fields of tokens, 0 outside of responses."""
        own = values[0] if self.present is None else self.of_responses(values)
        return torch.where(self.mask.reshape(*self.mask.shape, *[1] * (own.ndim - self.mask.ndim)), own, 0.0)

    def of_responses(self, values: Tensor) -> Tensor:
        """Return the columns of values ``(N, T, ...)`` that the fields of tokens have."""
        return values[:, values.shape[1] - self.mask.shape[-1] :]

    def at_places(self, values: Tensor) -> Tensor:
        """Return values in the shape of the layout's fields of tokens as values ``(N, T, ...)``."""
        if self.present is None:
            return values[None]
        before = values.new_zeros(len(values), self.ids.shape[1] - values.shape[1], *values.shape[2:])
        return torch.cat([before, values], 1)


def model_inputs(tree: Any) -> ModelInputs:
    """Return the inputs of a forward pass over rollouts in any layout.

    Raises:
        MissingFieldError: The batch does not have the fields of any layout.
        LeafError: A mask or ids are not tensors, or ids are not whole numbers.
        StructureError: Shapes do not fit, a token has a negative id, a mask is True where no token is, or a response
            has no token in front of it.
    """
    layout = layout_of(tree)
    return _end_to_end(tree) if layout in ("ragged", "packed") else _padded(tree, is_split=layout == "split")


def _padded(tree: Any, *, is_split: bool) -> ModelInputs:
    mask = as_bools(tree["response_mask"], "response_mask")
    if is_split:
        masks = as_bools(tree["prompt_mask"], "prompt_mask"), mask
        sides = zip(("prompt_ids", "response_ids"), masks, strict=True)
        parts = [_ids_of_tokens(tree[name], there, name) for name, there in sides]
        if len(masks[0]) != len(mask):
            raise StructureError(f"it has {len(mask)} rows, but there are {len(masks[0])} prompts", "response_mask")
        ids, present = torch.cat(parts, 1), torch.cat(masks, 1)
    else:
        present = as_bools(tree["attention_mask"], "attention_mask")
        ids = _ids_of_tokens(tree["input_ids"], present, "input_ids")
        if mask.ndim != 2 or len(mask) != len(ids) or mask.shape[1] > ids.shape[1]:
            text = f"it must have the rows of input_ids, {list(ids.shape)}, and no more columns, got {list(mask.shape)}"
            raise StructureError(text, "response_mask")
    inputs = ModelInputs(ids, present, (present.long().cumsum(1) - 1).clamp(min=0), mask)
    _require_tokens(mask, inputs.of_responses(present), inputs.of_responses(after_first(present)))
    return inputs


def _end_to_end(tree: Any) -> ModelInputs:
    if "cu_seqlens" in tree.__dict__:
        values, sizes = tree, np.diff(whole_numbers(tree["cu_seqlens"], "cu_seqlens"))
    else:
        values, sizes = tree["tokens"].values, as_lengths(tree["tokens"].lengths)
    mask = as_bools(values["response_mask"], "response_mask")
    ids = _ids_of_tokens(values["input_ids"], torch.ones_like(mask), "input_ids", dimensions=1)
    if (sizes < 0).any() or int(sizes.sum()) != len(ids):
        raise StructureError(f"it must grow to the number of tokens, {len(ids)}", "cu_seqlens")
    places = torch_side().to_tensor(positions_of(sizes)).to(ids.device)
    _require_tokens(mask, torch.ones_like(mask), places > 0)
    return ModelInputs(ids[None], None, places[None], mask)


def after_first(values: Tensor) -> Tensor:
    """Return values ``(N, T, ...)`` one place later, with zeros in the first place."""
    return torch.cat([torch.zeros_like(values[:, :1]), values[:, :-1]], 1)


def _require_tokens(mask: Tensor, present: Tensor, before: Tensor) -> None:
    """Check that each token of a response is there, and has one before it."""
    if is_compiling():  # torch.compile cannot look at values
        return
    if bool((mask & ~present).any()):
        place = (mask & ~present).nonzero()[0].tolist()
        raise StructureError(f"it is True at {place}, where no token is", "response_mask")
    if bool((mask & ~before).any()):
        place = (mask & ~before).nonzero()[0].tolist()
        text = (
            f"the token at {place} has none before it, so no model predicts it; a prompt needs a token, and ends where "
        )
        raise StructureError(text + "the response begins", "response_mask")


def _ids_of_tokens(given: Any, present: Tensor, name: str, dimensions: int = 2) -> Tensor:
    """Return ids with 0 for those of padding that no vocabulary has, as -100, which a model would take for an index."""
    if not isinstance(given, Tensor) or given.is_floating_point() or given.dtype == torch.bool:
        raise LeafError(f"ids of tokens must be a tensor of whole numbers, got {describe(given)}", name)
    ids: Tensor = given
    if ids.shape != present.shape or ids.ndim != dimensions:
        shape = f"{dimensions} dimension{'s' * (dimensions > 1)}, and the shape of the mask, {list(present.shape)}"
        raise StructureError(f"ids must have {shape}, got {list(ids.shape)}", name)
    if not is_compiling() and bool(((ids < 0) & present).any()):
        row = ((ids < 0) & present).nonzero()[0].tolist()
        raise StructureError(f"the token at {row} has a negative id; padding is False in the mask of the tokens", name)
    return ids.clamp(min=0)
