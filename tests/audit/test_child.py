"""Copies of the process for replays: what they may do, how they end, and what is said of those that fail."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from typedbatch import Batch
from typedbatch.audit import Report, audit
from typedbatch.audit.child import in_child
from typedbatch.buffers import ReplayBuffer


@contextmanager
def interrupted_by_alarm() -> Generator[None]:
    """Raise a KeyboardInterrupt at SIGALRM, as at Ctrl-C."""
    handler = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGALRM, handler)


def learner() -> Any:
    net = nn.Linear(2, 1)
    optim = torch.optim.SGD(net.parameters(), 0.1)

    def learn(obs: Any) -> None:
        optim.zero_grad()
        net(torch.as_tensor(obs)).square().mean().backward()
        optim.step()

    return learn


def why(report: Report) -> str:
    (note,) = [note.text for note in report.notes if note.code.startswith("TB511")]
    return note.removeprefix("the update was not replayed on other batches: ")


def test_an_update_reads_a_buffer_on_disk_in_replays_and_does_not_write_to_it(tmp_path: Path):
    buffer, learn = ReplayBuffer[Any](40, path=tmp_path / "rows"), learner()
    for _ in range(30):
        buffer.add(Batch(obs=np.ones(2, np.float32), act=0, rew=1.0, terminated=False, truncated=False, info=Batch()))

    def update(batch: Any) -> None:
        learn(buffer.sample(8)[0].obs)
        learn(batch.obs)

    assert audit(update, Batch(obs=torch.ones(4, 2))).notes == []

    def adds(batch: Any) -> None:
        update(batch)
        buffer.add(buffer[0])

    assert why(audit(adds, Batch(obs=torch.ones(4, 2)))).startswith("the update raised StorageError in a copy of the")
    assert len(buffer) == 31


def test_a_replay_that_waits_for_a_lock_of_another_thread_is_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("typedbatch.audit.child._IDLE", 1.0)
    lock, is_held, may_go, learn = threading.Lock(), threading.Event(), threading.Event(), learner()

    def hold() -> None:
        with lock:
            is_held.set()
            may_go.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    is_held.wait()

    def update(batch: Any) -> None:
        if parent == os.getpid():
            may_go.set()
        with lock:
            learn(batch.obs)

    parent = os.getpid()
    text = why(audit(update, Batch(obs=torch.ones(4, 2))))
    thread.join()
    assert text == "a copy of the process waits, perhaps for a lock that a thread of this process held"


def test_a_result_is_read_although_a_child_of_the_copy_holds_the_pipe():
    def result() -> int:
        if not os.fork():
            time.sleep(5)
            os._exit(0)
        return 7

    begin = time.monotonic()
    assert in_child(result) == (7, "")
    assert time.monotonic() - begin < 4


def test_a_copy_leaves_no_descriptor_and_says_how_it_ended():
    before = os.listdir("/proc/self/fd")
    assert in_child(lambda: os._exit(3)).failure == "a copy of the process was killed or ended by itself"
    assert in_child(lambda: {"big": "x" * 300_000}).value == {"big": "x" * 300_000}
    assert (
        "ValueError in a copy of the process: no" in in_child(lambda: (_ for _ in ()).throw(ValueError("no"))).failure
    )
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    with pytest.raises(KeyboardInterrupt), interrupted_by_alarm():
        in_child(lambda: time.sleep(20))
    assert os.listdir("/proc/self/fd") == before
