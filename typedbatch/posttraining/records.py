"""Records for the stages of a post-training pipeline: prompts, rollouts, scored rollouts, batches ready for a loss.

There are N rows with P tokens of prompts, padded on the left, and R tokens of responses, padded on the right.
``[:, t]`` of every field ``(N, R)`` belongs to ``response_ids[:, t]``. Use
:func:`~typedbatch.posttraining.to_layout` to convert to other layouts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeAlias

import numpy as np
import torch
from annotated_types import Ge
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from typedbatch._markers import NoGradient
from typedbatch.errors import StructureError
from typedbatch.posttraining.rules import ends_at_the_edge, logp_close, logp_of_mask, within
from typedbatch.records import BatchRecord
from typedbatch.rules import Finite

if TYPE_CHECKING:
    Absent: TypeAlias = Any | None  # with Any, pyright lets two records require different ones of the optional fields
else:
    Absent = None
Objects: TypeAlias = NDArray[np.object_]
Row: TypeAlias = Float[Tensor, "N"]
Ids: TypeAlias = Int[Tensor, "N R"]
Mask: TypeAlias = Bool[Tensor, "N R"]
PerToken: TypeAlias = Annotated[Float[Tensor, "N R"], Finite]
FixedPerToken: TypeAlias = Annotated[Float[Tensor, "N R"], Finite, NoGradient]


class Prompts(BatchRecord):
    """Prompts for the sampler."""

    prompt_ids: Int[Tensor, "N P"]
    """Tokens of the prompts, padded on the left."""
    prompt_mask: Bool[Tensor, "N P"]
    """True where there is a token."""
    uid: Objects
    """Identifier of the row's prompt, a text or a number. Rows with the same ``uid`` are a group in GRPO and RLOO."""

    prompts_end_at_the_edge: ClassVar[Any] = ends_at_the_edge("prompt_mask")


class Rollouts(Prompts):
    """Responses of the sampler."""

    response_ids: Ids
    """Tokens of the responses, padded on the right, including tokens of tools and environments."""
    response_mask: Mask
    """True where there is a token."""
    loss_mask: Mask
    """True where a token counts in the loss, as it was sampled by the policy and is not part of a tool's output."""
    rollout_logp: FixedPerToken | Absent = None
    """Log-probability of each token under the sampler that drew it, in nats."""
    response_length: Int[Tensor, "N"] | None = None
    """Number of tokens of each response."""
    truncated: Bool[Tensor, "N"] | None = None
    """True where the sampler stopped because of the maximum length."""
    policy_step: Int[Tensor, "N"] | Absent = None
    """Version of the weights that sampled the row."""

    loss_is_of_responses: ClassVar[Any] = within("loss_mask", "response_mask")
    logp_is_of_the_loss: ClassVar[Any] = logp_of_mask("rollout_logp", "loss_mask")


class Scored(Rollouts):
    """Rollouts with rewards."""

    rewards: Annotated[Row, Finite, NoGradient]
    """Reward of each sample."""


class Ready(Scored):
    """Scored rollouts with every field that a policy-gradient loss may read."""

    old_logp: FixedPerToken
    """Log-probability of each token under the trainer's weights before the first update, in nats."""
    advantages: FixedPerToken
    """Advantage of each token. An advantage per sample is repeated at each token of the sample."""
    ref_logp: FixedPerToken | Absent = None
    """Log-probability of each token under the reference model, in nats."""
    values: PerToken | Absent = None
    """Predicted values of the critic."""
    returns: FixedPerToken | Absent = None
    """Value targets for the critic."""
    is_weights: Annotated[Float[Tensor, "N R"], Ge(0), NoGradient] | Absent = None
    """Importance weight of each token, for samples from older weights or a different engine."""

    logp_is_close: ClassVar[Any] = logp_close("old_logp", "rollout_logp")


class HasRolloutLogp(Rollouts):
    """Rollouts in which the log-probabilities of the sampler are required.

    A subclass of several such records requires all: ``class Sampled(HasRefLogp, HasRolloutLogp)``. In a class of your
    own, pyright refuses to require a field that has a default in its base class.
    """

    rollout_logp: FixedPerToken  # pyright: ignore[reportGeneralTypeIssues]  # required here
    """Log-probability of each token under the sampler that drew it, in nats."""


class HasPolicyStep(Rollouts):
    """Rollouts in which the version of the weights is required, as for the rule ``sampled_by``."""

    policy_step: Int[Tensor, "N"]  # pyright: ignore[reportGeneralTypeIssues]  # required here
    """Version of the weights that sampled the row."""


class HasRefLogp(Ready):
    """Batches ready for a loss in which the log-probabilities of the reference model are required."""

    ref_logp: FixedPerToken  # pyright: ignore[reportGeneralTypeIssues]  # required here
    """Log-probability of each token under the reference model, in nats."""


class HasValues(Ready):
    """Batches ready for a loss in which the fields of a critic are required."""

    values: PerToken  # pyright: ignore[reportGeneralTypeIssues]  # required here
    """Predicted values of the critic."""
    returns: FixedPerToken  # pyright: ignore[reportGeneralTypeIssues]  # required here
    """Value targets for the critic."""


class HasIsWeights(Ready):
    """Batches ready for a loss in which importance weights are required, as for samples of older weights."""

    is_weights: Annotated[Float[Tensor, "N R"], Ge(0), NoGradient]  # pyright: ignore[reportGeneralTypeIssues]  # required here
    """Importance weight of each token, for samples from older weights or a different engine."""


class Sequences(BatchRecord):
    """Prompts with a response each, for a forward pass."""

    prompt_ids: Int[Tensor, "N P"]
    """Tokens of the prompts, padded on the left."""
    prompt_mask: Bool[Tensor, "N P"]
    """True where there is a token."""
    response_ids: Ids
    """Tokens of the responses, padded on the right."""
    response_mask: Mask
    """True where there is a token."""


class Pairs(BatchRecord):
    """A better and a worse response to each prompt, for DPO and reward models. The two are padded independently."""

    prompt_ids: Int[Tensor, "N P"]
    """Tokens of the prompts, padded on the left."""
    prompt_mask: Bool[Tensor, "N P"]
    """True where there is a token."""
    chosen_ids: Int[Tensor, "N C"]
    """Tokens of the better responses, padded on the right."""
    chosen_mask: Bool[Tensor, "N C"]
    """True where there is a token."""
    rejected_ids: Int[Tensor, "N D"]
    """Tokens of the worse responses, padded on the right."""
    rejected_mask: Bool[Tensor, "N D"]
    """True where there is a token."""
    ref_chosen_logp: Row | Absent = None
    """Log-probability of the whole better response under the reference model, in nats."""
    ref_rejected_logp: Row | Absent = None
    """Log-probability of the whole worse response under the reference model, in nats."""

    @property
    def chosen(self) -> Sequences:
        """Better responses with a mask of their own, on the same memory.

        The meta is that of the pairs with temperature 1, as losses of pairs compare log-probabilities of the model
        itself, and not of a sampler.
        """
        return self._sequences(self.prompt_ids, self.prompt_mask, self.chosen_ids, self.chosen_mask)

    @property
    def rejected(self) -> Sequences:
        """Worse responses with a mask of their own, on the same memory; see :attr:`chosen`."""
        return self._sequences(self.prompt_ids, self.prompt_mask, self.rejected_ids, self.rejected_mask)

    @property
    def both(self) -> Sequences:
        """All better responses, then all worse ones, as ``2 * N`` rows for one forward pass.

        ``chosen, rejected = token_logp(model, pairs.both).sum(1).chunk(2)``. The narrower side is padded with zeros.
        Data is copied, and fields of one's own are left out. The meta is that of :attr:`chosen`.

        Raises:
            StructureError: Ids have another shape than their mask.
        """
        for name in ("chosen", "rejected"):
            if self[f"{name}_ids"].shape != self[f"{name}_mask"].shape:
                shapes = (list(self[f"{name}_{of}"].shape) for of in ("ids", "mask"))
                raise StructureError("ids are {}, but their mask is {}".format(*shapes), f"{name}_ids")
        width = max(self.chosen_ids.shape[1], self.rejected_ids.shape[1])
        sides = (self.chosen_ids, self.rejected_ids), (self.chosen_mask, self.rejected_mask)
        ids, mask = (torch.cat([pad(side, (0, width - side.shape[1])) for side in two]) for two in sides)
        return self._sequences(self.prompt_ids.repeat(2, 1), self.prompt_mask.repeat(2, 1), ids, mask)

    def _sequences(self, prompts: Tensor, prompt_mask: Tensor, ids: Tensor, mask: Tensor) -> Sequences:
        made = Sequences(prompt_ids=prompts, prompt_mask=prompt_mask, response_ids=ids, response_mask=mask)
        made.meta = {**self.meta, "temperature": 1.0}
        return made


class HasPairRefLogp(Pairs):
    """Pairs in which the log-probabilities of the reference model are required, as the loss of DPO reads them."""

    ref_chosen_logp: Row  # pyright: ignore[reportGeneralTypeIssues]  # required here
    """Log-probability of the whole better response under the reference model, in nats."""
    ref_rejected_logp: Row  # pyright: ignore[reportGeneralTypeIssues]  # required here
    """Log-probability of the whole worse response under the reference model, in nats."""


class Distillation(Rollouts):
    """Rollouts with a teacher's predictions at each token."""

    teacher_ids: Int[Tensor, "N R K"]
    """The K most likely tokens according to the teacher."""
    teacher_logp: Float[Tensor, "N R K"]
    """Log-probabilities of ``teacher_ids``, in nats."""
