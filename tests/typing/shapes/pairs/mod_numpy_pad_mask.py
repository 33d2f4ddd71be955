"""Evaluation metrics in numpy: masked accuracy, perplexity and calibration error."""
from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray


def log_softmax(x: Float[ndarray, "B T V"]) -> Float[ndarray, "B T V"]:
    x = x - x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def perplexity(
    logits: Float[ndarray, "B T V"], labels: Int[ndarray, "B T"], pad_mask: Int[ndarray, "B T"]
) -> float:
    """``pad_mask`` is 1 on padding and 0 on real tokens, as the tokenizer returns it."""
    logp = np.take_along_axis(log_softmax(logits), labels[..., None], axis=-1)[..., 0]
    real = 1 - pad_mask
    # wrong: real = ~pad_mask  # WRONG
    return float(np.exp(-(logp * real).sum() / real.sum()))


def accuracy(
    logits: Float[ndarray, "B T V"], labels: Int[ndarray, "B T"], pad_mask: Int[ndarray, "B T"]
) -> float:
    hit = logits.argmax(axis=-1) == labels
    return float(hit[pad_mask == 0].mean())


def calibration_error(conf: Float[ndarray, "N"], hit: Float[ndarray, "N"], bins: int = 5) -> float:
    which = np.minimum((conf * bins).astype(int), bins - 1)
    total = 0.0
    for b in range(bins):
        sel = which == b
        if sel.any():
            total += sel.mean() * abs(conf[sel].mean() - hit[sel].mean())
    return float(total)


def main() -> None:
    rng = np.random.default_rng(0)
    B, T, V = 3, 7, 11
    logits = rng.normal(size=(B, T, V))
    labels = rng.integers(0, V, size=(B, T))
    pad_mask = (np.arange(T)[None, :] >= np.array([7, 4, 5])[:, None]).astype(np.int64)
    conf = np.exp(log_softmax(logits)).max(axis=-1).reshape(-1)
    hit = (logits.argmax(-1) == labels).astype(float).reshape(-1)
    print("ppl", perplexity(logits, labels, pad_mask))
    print("acc", accuracy(logits, labels, pad_mask), "ece", calibration_error(conf, hit))


if __name__ == "__main__":
    main()
