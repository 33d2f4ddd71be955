"""Threads and a shared store: a parameter server with open batches, numpy; subclass of Batch for a log."""
from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Queue

import numpy as np

from typedbatch import Batch, RolloutBatchProtocol, validate


class Log(Batch):
    """A batch with two methods."""

    def bump(self, name: str, by: float = 1.0) -> None:
        self[name] = self.get(name, 0.0) + by

    def line(self) -> str:
        return " ".join(f"{name}={float(value):.1f}" for name, value in sorted(self.items()))


class Server:
    def __init__(self, dim: int) -> None:
        self.lock = threading.Lock()
        self.params = Batch(w=np.zeros(dim), version=0)
        self.log = Log()
        self.log.started = 1.0

    def pull(self) -> Batch:
        with self.lock:
            return Batch(self.params, copy=True)

    def push(self, grads: Batch) -> None:
        with self.lock:
            self.params.w -= 0.1 * grads.w
            self.params.version += 1
            self.log.bump("pushes")
            self.log.bump("staleness", float(self.params.version - grads.version))


def collect(number: int, params: Batch, n: int) -> Batch:
    rng = np.random.default_rng(number)
    out = Batch(obs=rng.normal(size=(n, len(params.w))))
    out.act = out.obs @ params.w
    out.rew = -np.square(out.act - out.obs[:, 0])
    out.obs_next = out.obs.copy()
    out.terminated = out.truncated = np.zeros(n, bool)
    out.info = Batch(worker=np.full(n, number), version=np.full(n, params.version))
    return out


def gradient(batch: RolloutBatchProtocol) -> Batch:
    error = batch.act - batch.obs[:, 0]
    grads = Batch(w=(2 * error[:, None] * batch.obs).mean(0))
    grads.loss = -batch.rew.mean()
    return grads


def work(server: Server, number: int, done: Queue[Batch]) -> Batch:
    losses = Batch(first=None)
    rows = 0
    for _ in range(20):
        params = server.pull()
        data = collect(number, params, 16)
        grads = gradient(validate(data, RolloutBatchProtocol))
        grads.version = params.version
        rows = data.info.worker.size
        server.push(grads)
        if losses.first is None:
            losses.first = grads.loss
        losses.last = grads.loss
    done.put(Batch(worker=number, rows=rows))
    return losses


def main() -> None:
    server = Server(3)
    done: Queue[Batch] = Queue()
    with ThreadPoolExecutor(3) as pool:
        futures: list[Future[Batch]] = [pool.submit(work, server, number, done) for number in range(3)]
        results = [future.result() for future in futures]
    report = Batch.stack(results)
    print(report.first.mean() > report.last.mean(), server.params.version)
    finished = sorted(done.get().worker.item() for _ in range(3))
    print(finished, server.log.pushes, "started" in server.log)
    server.log.ratio = server.log.staleness / server.log.pushes
    print(server.log.ratio >= 1, len(server.log.line().split()))
    copied = server.log.copy()
    copied.bump("pushes", 5)
    print(copied.pushes - server.log.pushes)
    del copied.started


if __name__ == "__main__":
    main()
