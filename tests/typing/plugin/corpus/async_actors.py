"""Asynchronous actors put rollouts on a queue; a learner thread takes them off."""

from __future__ import annotations

import asyncio
import queue
import threading
from typing import Any

import numpy as np

from typedbatch import Batch


class ParameterServer:
    def __init__(self, dim: int) -> None:
        self._lock = threading.Lock()
        self._params = Batch(weights=np.zeros(dim), version=0)

    def get(self) -> tuple[np.ndarray, int]:
        with self._lock:
            return self._params.weights.copy(), int(self._params.version)
            #! misspelt-read: return self._params.weight.copy(), int(self._params.version)

    def push(self, gradient: np.ndarray) -> None:
        with self._lock:
            self._params.weights = self._params.weights + 0.1 * gradient
            self._params.version = self._params.version + 1
            #! misspelt-read: self._params.version = self._params.versions + 1


async def actor(name: int, server: ParameterServer, out: queue.Queue[Batch | None], rounds: int) -> int:
    rng = np.random.default_rng(name)
    produced = 0
    for _ in range(rounds):
        weights, version = server.get()
        obs = rng.normal(size=(10, len(weights)))
        prob = 1 / (1 + np.exp(-obs @ weights))
        rollout = Batch(obs=obs, act=(rng.random(10) < prob).astype(int))
        #! missing-field: rollout = Batch(obs=obs)
        rollout.rew = rollout.obs[:, 0] * (2 * rollout.act - 1)
        #! misspelt-read: rollout.rew = rollout.obs[:, 0] * (2 * rollout.actions - 1)
        rollout.logp = np.where(rollout.act == 1, np.log(prob), np.log(1 - prob))
        rollout.age = np.full(10, version)
        await asyncio.sleep(0)
        out.put(rollout)
        produced += len(rollout.rew)
        #! old-name: produced += len(rollout.reward)
    return produced


def learner(server: ParameterServer, source: queue.Queue[Batch | None], stats: dict[str, Any]) -> None:
    seen = []
    while (item := source.get()) is not None:
        seen.append(item)
        if len(seen) % 2:
            continue
        pair = Batch.cat(seen[-2:])
        pair.adv = pair["rew"] - pair["rew"].mean()
        #! misspelt-item: pair.adv = pair["rew"] - pair["rews"].mean()
        pair.weight = np.minimum(1.0, np.exp(-0.1 * pair["age"]))
        weights, _ = server.get()
        prob = 1 / (1 + np.exp(-pair["obs"] @ weights))
        gradient = ((pair["act"] - prob) * pair.adv * pair.weight) @ pair["obs"] / len(pair)
        #! misspelt-read: gradient = ((pair["act"] - prob) * pair.advantage * pair.weight) @ pair["obs"] / len(pair)
        server.push(gradient)
    stats["batches"] = len(seen)
    stats["mean"] = float(np.mean([one["rew"].mean() for one in seen]))


async def produce(server: ParameterServer, channel: queue.Queue[Batch | None]) -> int:
    counts = await asyncio.gather(*(actor(name, server, channel, rounds=3) for name in range(4)))
    channel.put(None)
    return sum(counts)


def main() -> None:
    server = ParameterServer(3)
    channel: queue.Queue[Batch | None] = queue.Queue()
    stats: dict[str, Any] = {}
    count = asyncio.run(produce(server, channel))
    thread = threading.Thread(target=learner, args=(server, channel, stats))
    thread.start()
    thread.join()
    if "mean" not in stats:
        raise RuntimeError("the learner failed")
    weights, version = server.get()
    print(count, stats["batches"], version, round(stats["mean"], 4), np.round(weights, 4).tolist())


if __name__ == "__main__":
    main()
