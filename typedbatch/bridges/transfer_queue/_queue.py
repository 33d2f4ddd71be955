"""The queue: its controller and storage on Ray, and calls that do not wait for ever."""

from __future__ import annotations

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import ray
import transfer_queue
from omegaconf import OmegaConf

from typedbatch.errors import SettingError, StreamError, StreamTimeoutError

R = TypeVar("R")
_CONTROLLER: Final = "TransferQueueController"
_NAMESPACE: Final = "transfer_queue"
_LEAST_CPUS: Final = 8
"""CPUs that Ray is told of: the controller and each storage claim one, and nothing starts if there are too few."""
_PATIENCE: Final = 120.0
"""Seconds after which a call counts as hung, because TransferQueue waits for ever for a controller that has died."""


class RowSampler(transfer_queue.BaseSampler):
    """Choice of rows that are ready: whole groups, and rows of recent versions."""

    def sample(
        self,
        ready_indexes: list[int],
        batch_size: int,
        *args: Any,
        partition: Any = None,
        groups: bool = False,
        at_least: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> tuple[list[int], list[int]]:
        """Return the rows that a reader gets, and those that count as read; both are empty until there are enough.

        Groups are known by the tags ``group`` and ``size`` of their rows, and ``at_least`` has the smallest values that
        numbers of a row's meta may have.
        """
        tags: dict[int, Any] = {} if partition is None else partition.get_custom_meta(ready_indexes)
        metas, least = {row: tags.get(row, {}).get("meta", {}) for row in ready_indexes}, (at_least or {}).items()
        ready = [row for row, meta in metas.items() if all(key in meta and meta[key] >= value for key, value in least)]
        chosen = _whole_groups(ready, tags, batch_size) if groups else ready[:batch_size]
        return (chosen, list(chosen)) if len(chosen) == batch_size else ([], [])


def _whole_groups(rows: list[int], tags: Mapping[int, Mapping[str, Any]], most: int) -> list[int]:
    """Return rows of groups that are complete, oldest first, at most ``most``."""
    members: dict[Any, list[int]] = defaultdict(list)
    for row in rows:
        if "group" in (tag := tags.get(row, {})):
            members[tag["group"]].append(row)
    chosen: list[int] = []
    for own in members.values():
        if len(own) == tags[own[0]]["size"] and len(chosen) + len(own) <= most:
            chosen += own
    return chosen


@contextmanager
def open_queue(*, storage_units: int = 1) -> Generator[None]:
    """Start a queue, and end it with all that is in it when the ``with`` block ends.

    Call it in one process, the driver. Workers only make a :class:`Stream`. Ray is started on this machine if it is not
    running, and ended then too.

    Args:
        storage_units: Number of processes that hold the data.

    Raises:
        SettingError: ``storage_units`` is below 1, or Ray has a queue already.
    """
    if storage_units < 1:
        raise SettingError(f"storage_units must be at least 1, got {storage_units}")
    starts_ray = not ray.is_initialized()
    if starts_ray:
        ray.init(num_cpus=max(_LEAST_CPUS, storage_units + 2, os.cpu_count() or 1), include_dashboard=False)
    try:
        if has_queue():
            raise SettingError("Ray has a queue already; a cluster can have one")
        settings = {
            "controller": {"sampler": RowSampler(), "polling_mode": True},
            "backend": {"SimpleStorage": {"num_data_storage_units": storage_units}},
        }
        transfer_queue.init(OmegaConf.create(settings, flags={"allow_objects": True}))
        try:
            yield
        finally:
            transfer_queue.close()
    finally:
        if starts_ray:
            ray.shutdown()


def has_queue() -> bool:
    """Return whether Ray has a queue."""
    try:
        ray.get_actor(_CONTROLLER, namespace=_NAMESPACE)
    except ValueError:
        return False
    return True


def attach() -> Any:
    """Return the client of this process."""
    if not ray.is_initialized() or not has_queue():
        raise SettingError("there is no queue; open_queue() starts one in the driver, and Ray must be running here")
    transfer_queue.init()
    return transfer_queue.get_client()


def call(function: Callable[..., R], *args: Any, **kwargs: Any) -> R:
    """Return the result of a call of TransferQueue, or raise a StreamError if it fails or does not answer."""
    answer: list[R] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            answer.append(function(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  # TransferQueue raises RuntimeError, ValueError, KeyError and others
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)  # Nothing can end it, and it must not keep the process.
    thread.start()
    thread.join(_PATIENCE)
    if failed:
        raise StreamError(f"the queue has failed: {type(failed[0]).__name__}: {failed[0]}") from failed[0]
    if not answer:
        raise StreamTimeoutError(f"the queue has not answered within {_PATIENCE:g} s; its controller may have ended")
    return answer[0]
