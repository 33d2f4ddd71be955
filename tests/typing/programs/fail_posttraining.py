"""Mistakes in post-training: a stage too early, a field of a later one, a layout that is none, meta of another shape."""

from typing import Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import override

from typedbatch.posttraining import (
    LeftPadded,
    PackedLossProtocol,
    PairLossProtocol,
    Pairs,
    PolicyLossProtocol,
    Prompts,
    Ready,
    ReferenceProtocol,
    RewardProtocol,
    Rollouts,
    Scored,
    SequenceProtocol,
    ValueLossProtocol,
    to_layout,
)
from typedbatch.rows import balance, chunk, project, repeat, union


class Sampling(TypedDict):
    temperature: float


class Sampled(Ready):
    meta: Sampling


class LossInputs(PolicyLossProtocol, Protocol):
    @property
    @override
    def meta(self) -> Sampling: ...


def sequence(batch: SequenceProtocol) -> None:
    print(batch.response_ids.shape)


def baseline(batch: RewardProtocol) -> Tensor:
    return batch.reward  # E: misspelt-read: reward


def policy_loss(batch: PolicyLossProtocol) -> Tensor:
    return batch.old_logp * batch.rewards  # E: loss-reads-rewards: rewards


def penalty(batch: ReferenceProtocol) -> Tensor:
    ref_logp: Tensor = batch.ref_logp  # zuban may take the types of jaxtyping for Any
    return ref_logp


def packed_loss(batch: PackedLossProtocol) -> Tensor:
    return batch.response_ids  # E: packed-has-no-rows: response_ids


def pair_loss(batch: PairLossProtocol) -> Tensor:
    return batch.chosen_ref_logp  # E: misspelt-pair: chosen_ref_logp


def value_loss(batch: ValueLossProtocol) -> Tensor:
    return batch.values() - batch.returns  # E: a-field-is-not-called


def tempered(batch: LossInputs) -> float:
    return batch.meta["temprature"]  # E: misspelt-key: temprature


def too_early(prompts: Prompts, rollouts: Rollouts, scored: Scored, ready: Ready, pairs: Pairs) -> None:
    sequence(prompts)  # E: prompts-have-no-responses
    baseline(rollouts)  # E: rollouts-have-no-rewards
    policy_loss(scored)  # E: scored-has-no-advantages
    policy_loss(repeat(scored, 2))  # E: repeated-has-no-advantages
    policy_loss(chunk(scored, 2)[0])  # E: part-has-no-advantages
    penalty(ready)  # E: reference-may-be-absent
    value_loss(ready)  # E: values-may-be-absent
    packed_loss(to_layout(ready, "packed"))  # E: packed-fields-may-be-absent
    pair_loss(pairs)  # E: pairs-of-no-reference
    print(rollouts.rewards)  # E: field-of-a-later-stage: rewards
    ready.ref_logp.mean()  # E: optional-field: mean


def wrongly_made(scored: Scored, ids: NDArray[np.int64], x: Tensor) -> Sampled:
    Prompts(prompt_ids=ids, prompt_mask=x, uid=ids)  # E: arrays-for-tensors
    Prompts(prompt_ids=x, prompt_mask=x)  # E: no-uid: uid
    return scored  # E: stage-left-out


def layouts(rollouts: Rollouts) -> LeftPadded:
    to_layout(rollouts, "jagged")  # E: unknown-layout
    to_layout(rollouts, "left")  # E: no-pad-token
    print(to_layout(rollouts, "packed").attention_mask)  # E: packed-has-no-mask: attention_mask
    print(to_layout(rollouts, "ragged").tokens.values.response_ids)  # E: tokens-are-input-ids: response_ids
    return to_layout(rollouts, "right", pad_token_id=0)  # E: other-layout


def rows(ready: Ready, scored: Scored) -> None:
    print(project(ready, PolicyLossProtocol).uid)  # E: read-of-what-was-left-out: uid
    print(union(scored, ready).advantages)  # E: union-is-of-the-first: advantages
    balance(ready.uid)  # E: no-parts
