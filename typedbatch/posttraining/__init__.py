"""Post-training of language models: records for each stage of a pipeline, protocols for its losses, token layouts."""

from typedbatch._ops.widths import PER_TOKEN
from typedbatch.posttraining.layouts import (
    LeftPadded,
    PackedRollouts,
    RaggedRollouts,
    RightPadded,
    Tokens,
)
from typedbatch.posttraining.protocols import (
    PackedLossProtocol,
    PairLossProtocol,
    PolicyLossProtocol,
    ReferenceProtocol,
    RewardProtocol,
    SequenceProtocol,
    ValueLossProtocol,
)
from typedbatch.posttraining.records import (
    Distillation,
    HasRefLogp,
    HasRolloutLogp,
    HasValues,
    Pairs,
    Prompts,
    Ready,
    Rollouts,
    Scored,
)
from typedbatch.posttraining.to_layout import to_layout
from typedbatch.posttraining.token_fields import Layout
from typedbatch.posttraining.trimming import trim

__all__ = [
    "PER_TOKEN",
    "Distillation",
    "HasRefLogp",
    "HasRolloutLogp",
    "HasValues",
    "Layout",
    "LeftPadded",
    "PackedLossProtocol",
    "PackedRollouts",
    "PairLossProtocol",
    "Pairs",
    "PolicyLossProtocol",
    "Prompts",
    "RaggedRollouts",
    "Ready",
    "ReferenceProtocol",
    "RewardProtocol",
    "RightPadded",
    "Rollouts",
    "Scored",
    "SequenceProtocol",
    "Tokens",
    "ValueLossProtocol",
    "to_layout",
    "trim",
]


def __dir__() -> list[str]:
    return __all__  # without the submodules, which are private
