"""What is passed between the stages."""

from typing import Protocol

from torch import Tensor

from typedbatch import BatchProtocol, BatchRecord


class Prompts(BatchRecord):
    prompt: Tensor
    source: Tensor


class Completions(Prompts):
    tokens: Tensor
    logp: Tensor
    mask: Tensor


class Rewarded(Completions):
    score: Tensor
    ref_logp: Tensor


class Experience(Rewarded):
    adv: Tensor
    returns: Tensor


class Maskable(BatchProtocol, Protocol):
    @property
    def mask(self) -> Tensor: ...


class Supervised(BatchProtocol, Protocol):
    @property
    def tokens(self) -> Tensor: ...
    @property
    def mask(self) -> Tensor: ...
