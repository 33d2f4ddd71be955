"""Values of the tokens of rollouts under a critic: ``token_values``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from typedbatch._core.lengths import require_tree
from typedbatch.errors import StructureError
from typedbatch.posttraining.model_inputs import after_first, model_inputs
from typedbatch.posttraining.token_logp import CausalModel
from typedbatch.protocols import BatchProtocol


def token_values(critic: CausalModel | Callable[..., Any], batch: BatchProtocol) -> Tensor:
    """Return the value before each token of the responses: what the critic expects when the token is chosen.

    It is the critic's output at the token before, the state in which the token is an action, as
    :func:`~typedbatch.posttraining.token_gae` needs it. It is in float32, and gradients flow to the critic.

    Args:
        critic: Model with a number for each token, called as ``critic(input_ids=, attention_mask=, position_ids=,
            use_cache=False)``. It returns ``(N, T)`` or ``(N, T, 1)``, or an object that has them as ``logits``, such
            as transformers' ``AutoModelForTokenClassification`` with one label. Sequences that are packed enter it as
            for :class:`~typedbatch.posttraining.CausalModel`.
        batch: Rollouts in any of the layouts.

    Returns:
        A tensor of the shape of the layout's fields of tokens, 0 outside of ``response_mask``.

    Raises:
        MissingFieldError: The batch does not have the fields of any layout.
        LeafError: A mask or ids are not tensors, or ids are not whole numbers.
        StructureError: The critic returns another shape, fields do not fit together, a mask is True where no token is,
            or a response has no token in front of it.
    """
    inputs = model_inputs(require_tree(batch, "token_values()"))
    values = inputs.call(critic)
    shape = tuple(inputs.ids.shape)
    if not isinstance(values, Tensor) or values.shape not in (shape, (*shape, 1)):
        got = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
        raise StructureError(f"the critic must return a number for each token, {[*shape]} or {[*shape, 1]}, got {got}")
    return inputs.at_tokens(after_first(values.reshape(shape).float()))
