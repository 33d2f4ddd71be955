"""Stages of post-training: what each makes, what each reads, and that operations keep the record."""

from typing import Literal, Protocol, TypedDict

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from typing_extensions import assert_type, override

from typedbatch import Batch, Ragged, cat, checked, extend, validate
from typedbatch.posttraining import (
    HasPairRefLogp,
    HasPolicyStep,
    HasRefLogp,
    HasRolloutLogp,
    HasValues,
    LeftPadded,
    PackedLossProtocol,
    PackedRollouts,
    PairLossProtocol,
    Pairs,
    PolicyLossProtocol,
    Prompts,
    RaggedRollouts,
    Ready,
    ReferenceProtocol,
    RewardProtocol,
    RightPadded,
    Rollouts,
    Scored,
    SequenceProtocol,
    Tokens,
    ValueLossProtocol,
    to_layout,
    trim,
)
from typedbatch.rows import balance, chunk, groups, pad_rows, project, repeat, restore, union


class Sampling(TypedDict):
    temperature: float


class Sampled(Ready):
    meta: Sampling


class LossInputs(SequenceProtocol, PolicyLossProtocol, Protocol):
    @property
    @override
    def meta(self) -> Sampling: ...


def sequence(batch: SequenceProtocol) -> tuple[int, ...]:
    ids: Tensor = batch.response_ids  # zuban may take the types of jaxtyping for Any
    return ids.shape


def baseline(batch: RewardProtocol) -> Tensor:
    rewards: Tensor = batch.rewards
    return rewards - groups(batch, "uid").mean(rewards)


def policy_loss(batch: PolicyLossProtocol) -> Tensor:
    loss: Tensor = batch.old_logp * batch.advantages * batch.loss_mask
    return loss


def penalty(batch: ReferenceProtocol) -> Tensor:
    ref_logp: Tensor = batch.ref_logp
    return policy_loss(batch) + ref_logp


def value_loss(batch: ValueLossProtocol) -> Tensor:
    loss: Tensor = (batch.values - batch.returns) * batch.loss_mask
    return loss


def tempered(batch: LossInputs) -> float:
    return batch.meta["temperature"]


@checked
def sample(prompts: Prompts, ids: Tensor, mask: Tensor) -> Rollouts:
    return extend(prompts, Rollouts, response_ids=ids, response_mask=mask, loss_mask=mask, truncated=None)


def stages(prompts: Prompts, x: Tensor) -> Sampled:
    rollouts = sample(repeat(prompts, 8), x, x)
    sequence(rollouts)
    scored = extend(rollouts, Scored, rewards=x)
    sequence(scored)
    ready = extend(scored, Ready, old_logp=x, advantages=baseline(scored)[:, None] * scored.loss_mask)
    policy_loss(ready)
    baseline(ready)
    assert_type(ready.uid, NDArray[np.object_])
    sampled = extend(ready, Sampled, meta={"temperature": 0.7})
    tempered(sampled[:4])
    return sampled


def optional_stages(ready: Ready) -> tuple[Tensor, Tensor]:
    if ready.values is not None:
        ready.values.mean()
    return penalty(validate(ready, ReferenceProtocol)), value_loss(validate(ready, ValueLossProtocol))


def layouts(rollouts: Rollouts, layout: Literal["left"]) -> RaggedRollouts:
    assert_type(to_layout(rollouts, layout, pad_token_id=0), LeftPadded)
    mask: Tensor = to_layout(rollouts, "right", pad_token_id=0).attention_mask
    print(mask.shape)
    assert_type(to_layout(rollouts, "packed"), PackedRollouts)
    assert_type(to_layout(to_layout(rollouts, "right", pad_token_id=0), "split", pad_token_id=0), Rollouts)
    right: RightPadded = to_layout(rollouts, "right", pad_token_id=0)
    ragged = to_layout(right, "ragged")
    assert_type(ragged.tokens, Ragged[Tokens])
    assert_type(ragged.tokens.values, Tokens)
    ids: Tensor = ragged.tokens.values.input_ids
    print(ids.shape)
    return ragged[2:]


def rows(scored: Scored, ready: Ready) -> Ready:
    assert_type(chunk(scored, 4), list[Scored])
    assert_type(pad_rows(scored, 8), tuple[Scored, int])
    assert_type(union(scored, Batch(difficulty=scored.rewards), on="uid"), Scored)
    assert_type(project(ready, PolicyLossProtocol), PolicyLossProtocol)
    assert_type(cat([scored, scored]), Scored)
    parts = balance(ready.loss_mask.sum(1), 4)
    for minibatch in ready.split(128):
        policy_loss(minibatch)
    return restore([ready[part] for part in parts], parts)


class Required(HasRefLogp, HasRolloutLogp):
    meta: Sampling


class Critic(HasValues, HasRolloutLogp):
    meta: Sampling


class SameStage(HasPolicyStep, HasRolloutLogp): ...


class All(HasValues, HasPolicyStep, HasRefLogp, HasRolloutLogp): ...


def all_required(batch: All, one: SameStage) -> None:
    for tensor in (batch.values, batch.returns, batch.ref_logp, batch.rollout_logp, batch.policy_step):
        whole: Tensor = tensor
        print(whole.mean())
    for tensor in (one.rollout_logp, one.policy_step):
        rows: Tensor = tensor
        print(rows.mean())
    penalty(batch)
    value_loss(batch)


def required(batch: Required, critic: Critic, ready: Ready) -> None:
    assert_type(batch.meta["temperature"], float)
    for tensor in (batch.rollout_logp, batch.ref_logp, critic.values, critic.returns, critic.rollout_logp):
        whole: Tensor = tensor
        print(whole.mean())
    penalty(batch)
    value_loss(critic)
    assert_type(trim(batch), Required)
    assert_type(cat([batch, batch], widths="pad", pad_token_id=0), Required)
    assert_type(validate(ready, HasRefLogp), HasRefLogp)


def packed_loss(batch: PackedLossProtocol) -> Tensor:
    loss: Tensor = batch.old_logp * batch.advantages * batch.loss_mask
    return loss


def pair_loss(batch: PairLossProtocol) -> Tensor:
    loss: Tensor = batch.ref_chosen_logp - batch.ref_rejected_logp
    return loss


def to_losses(ready: Ready, pairs: Pairs, with_reference: HasPairRefLogp) -> None:
    pair_loss(with_reference[:2])
    packed_loss(validate(to_layout(ready, "packed"), PackedLossProtocol))
    pair_loss(validate(pairs, PairLossProtocol))
