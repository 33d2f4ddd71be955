"""Updates of Tianshou's algorithms, on rows of typed collectors and buffers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tianshou.algorithm.algorithm_base import OffPolicyAlgorithm, OnPolicyAlgorithm
from tianshou.utils.torch_utils import policy_within_training_step, torch_train_mode

from typedbatch._core.kinds import describe
from typedbatch.batch import Batch
from typedbatch.buffers import ReplayBuffer
from typedbatch.errors import LeafError, SettingError


def tianshou_update(
    algorithm: Any, buffer: ReplayBuffer[Any, Any] | None = None, *, batch_size: int | None = None, repeat: int = 1
) -> Callable[..., dict[str, float]]:
    """Return an update of one of Tianshou's algorithms, for :func:`~typedbatch.training.off_policy` or ``on_policy``.

    Each call does what ``algorithm.update`` does: it processes rows, makes the steps of the networks and of learning
    rate schedules, and writes priorities. The rows are copied into a plain batch first, to which the algorithm adds
    fields. Tianshou's ``Collector`` and ``Trainer`` are not needed.

    Args:
        algorithm: On-policy or off-policy algorithm of Tianshou 2.
        buffer: Buffer that off-policy rows are sampled from. On-policy algorithms take none.
        batch_size: Number of rows of a minibatch of an on-policy algorithm; None for all.
        repeat: Number of times that an on-policy algorithm uses all rows.

    Returns:
        Function of a sample and its slots, or of a rollout, that returns the losses by name.

    Raises:
        LeafError: ``algorithm`` is neither on-policy nor off-policy.
        SettingError: An off-policy algorithm has no buffer, or an on-policy algorithm has one.
    """
    if not isinstance(algorithm, (OnPolicyAlgorithm, OffPolicyAlgorithm)):
        raise LeafError(f"an on-policy or off-policy algorithm of Tianshou is expected, got {describe(algorithm)}")
    is_on_policy = isinstance(algorithm, OnPolicyAlgorithm)
    if is_on_policy and buffer is not None:
        raise SettingError(f"{type(algorithm).__name__} is on-policy and learns from rollouts; leave out the buffer")
    if not is_on_policy and buffer is None:
        raise SettingError(f"{type(algorithm).__name__} is off-policy; pass the buffer that off_policy samples from")

    def off_policy(batch: Any, slots: Any) -> dict[str, float]:
        return _updated(algorithm, Batch(batch), buffer, slots, ())

    def on_policy(rollout: Any) -> dict[str, float]:
        rows: ReplayBuffer[Any, Any] = ReplayBuffer(len(rollout))
        slots = rows.extend(rollout).slots
        return _updated(algorithm, Batch(rollout), rows, slots, (batch_size, repeat))

    return on_policy if is_on_policy else off_policy


def _updated(algorithm: Any, batch: Batch, buffer: Any, slots: Any, minibatches: tuple[Any, ...]) -> dict[str, float]:
    """Make the steps of ``Algorithm._update`` with rows that were sampled already."""
    with policy_within_training_step(algorithm.policy):
        batch = algorithm._preprocess_batch(batch, buffer, slots)  # noqa: SLF001  # update() samples rows of its own
        with torch_train_mode(algorithm):
            stats = algorithm._update_with_batch(batch, *minibatches)  # noqa: SLF001
        algorithm._postprocess_batch(batch, buffer, slots)  # noqa: SLF001
        for schedule in algorithm.lr_schedulers:
            schedule.step()
    losses: dict[str, float] = stats.get_loss_stats_dict()
    return losses
