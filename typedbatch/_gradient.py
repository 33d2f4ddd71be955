"""The marker in ``Annotated`` for fields without a gradient."""

from __future__ import annotations

from collections.abc import Iterable


class NoGradient:
    """Marker in ``Annotated`` for a field whose tensors carry no gradient, as ``adv``.

    Such a field is a target, or a weight, that a loss must not change to become smaller: returns, advantages, the
    log-probabilities of the sampling policy. ``validate`` refuses a tensor that requires a gradient.
    """


def has_no_gradient(metadata: Iterable[object]) -> bool:
    """Return whether the metadata of an annotation has the marker ``NoGradient``."""
    return any(mark is NoGradient or type(mark) is NoGradient for mark in metadata)
