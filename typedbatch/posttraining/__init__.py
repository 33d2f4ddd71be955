"""Post-training of language models: records for each stage of a pipeline, protocols for its losses, token layouts."""

from typedbatch._ops.widths import PER_TOKEN
from typedbatch.posttraining.aggregation import Aggregation, aggregate
from typedbatch.posttraining.layouts import LeftPadded, PackedRollouts, RaggedRollouts, RightPadded, Tokens
from typedbatch.posttraining.micro_batches import MicroBatch, map_tokens, micro_batches, pairs_of, trim
from typedbatch.posttraining.protocols import (
    PackedLossProtocol,
    PackedSequenceProtocol,
    PackedValueProtocol,
    PairLossProtocol,
    PolicyLossProtocol,
    ReferenceProtocol,
    RewardProtocol,
    SequenceProtocol,
    ValueLossProtocol,
)
from typedbatch.posttraining.records import (
    Distillation,
    HasIsWeights,
    HasPairRefLogp,
    HasPolicyStep,
    HasRefLogp,
    HasRolloutLogp,
    HasValues,
    Pairs,
    Prompts,
    Ready,
    Rollouts,
    Scored,
    Sequences,
)
from typedbatch.posttraining.rules import (
    ends_at_the_edge,
    kl_below,
    logp_close,
    logp_of_mask,
    same_in_groups,
    sampled_by,
    within,
)
from typedbatch.posttraining.to_layout import to_layout
from typedbatch.posttraining.token_fields import Layout
from typedbatch.posttraining.token_gae import token_gae
from typedbatch.posttraining.token_logp import CausalModel, token_logp
from typedbatch.posttraining.token_values import token_values

__all__ = [
    "PER_TOKEN", "Aggregation", "CausalModel", "Distillation", "HasIsWeights", "HasPairRefLogp", "HasPolicyStep",
    "HasRefLogp", "HasRolloutLogp", "HasValues", "Layout", "LeftPadded", "MicroBatch", "PackedLossProtocol",
    "PackedRollouts", "PackedSequenceProtocol", "PackedValueProtocol", "PairLossProtocol", "Pairs",
    "PolicyLossProtocol", "Prompts", "RaggedRollouts", "Ready", "ReferenceProtocol", "RewardProtocol", "RightPadded",
    "Rollouts", "Scored", "SequenceProtocol", "Sequences", "Tokens", "ValueLossProtocol", "aggregate",
    "ends_at_the_edge", "kl_below", "logp_close", "logp_of_mask", "map_tokens", "micro_batches", "pairs_of",
    "same_in_groups", "sampled_by", "to_layout", "token_gae", "token_logp", "token_values", "trim", "within",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__  # without the submodules, which are private
