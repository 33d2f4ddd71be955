"""Responses and log-probabilities of a model that takes the positions of its tokens from the caller."""

from tests.evidence.silent.shared import digits


def positions(mask):
    """Return the number of tokens before each one."""
    return (mask.long().cumsum(1) - 1).clamp(min=0)


def generate(model, prompts):
    """Return responses with the log-probs of the sampler."""
    return digits.generate(lambda ids, mask: model(ids, mask, positions(mask)), prompts)


def token_logp(model, batch):
    """Return log-probs of the tokens of the responses (N, R), 0 where there is none."""
    return digits.token_logp(lambda ids, mask: model(ids, mask, positions(mask)), batch)
