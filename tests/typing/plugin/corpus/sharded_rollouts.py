"""Rollouts on a pool of threads, gathered, sharded again and reduced."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np

from typedbatch import Batch, BatchWithAdvantages, BatchWithReturns, RolloutBatch, RolloutBatchProtocol, SampleBatch, extend


@dataclass(frozen=True)
class Job:
    worker: int
    seed: int
    steps: int


def rollout(job: Job, weights: np.ndarray) -> RolloutBatch:
    rng = np.random.default_rng(job.seed)
    obs = rng.normal(size=(job.steps + 1, len(weights)))
    act = (rng.random(job.steps) < 1 / (1 + np.exp(-obs[:-1] @ weights))).astype(int)
    info = Batch(worker=np.full(job.steps, job.worker), t=np.arange(job.steps))
    ended = np.arange(job.steps) == job.steps - 1
    rew = obs[:-1, 0] * (2 * act - 1)
    return RolloutBatch(obs=obs[:-1], obs_next=obs[1:], act=act, rew=rew, terminated=ended, truncated=~ended & False, info=info)
    #! forgotten-field: return RolloutBatch(obs=obs[:-1], obs_next=obs[1:], act=act, rew=rew, terminated=ended, info=info)


def gather(jobs: list[Job], weights: np.ndarray) -> list[RolloutBatch]:
    with ThreadPoolExecutor(max_workers=2) as pool:
        futures: dict[Future[RolloutBatch], Job] = {pool.submit(rollout, job, weights): job for job in jobs}
        finished = {futures[future].worker: future.result() for future in as_completed(futures)}
    return [finished[worker] for worker in sorted(finished)]


def with_returns(batch: RolloutBatchProtocol) -> BatchWithReturns:
    returns = batch.rew[::-1].cumsum()[::-1]
    #! later-stage: returns = batch.returns[::-1].cumsum()[::-1]
    return extend(batch, BatchWithReturns, returns=returns)
    #! misspelt-keyword: return extend(batch, BatchWithReturns, rets=returns)


def with_advantages(batch: BatchWithReturns) -> BatchWithAdvantages:
    stats = Batch(mean=batch.returns.mean(), std=batch.returns.std())
    v_s = np.full(len(batch), stats.mean)
    adv = (batch.returns - v_s) / (stats.std + 1e-8)
    #! misspelt-read: adv = (batch.returns - v_s) / (stats.stddev + 1e-8)
    return extend(batch, BatchWithAdvantages, adv=adv, v_s=v_s)


def gradient(shard: BatchWithAdvantages, weights: np.ndarray) -> Batch:
    prob = 1 / (1 + np.exp(-shard.obs @ weights))
    result = Batch(grad=((shard.act - prob) * shard.adv) @ shard.obs)
    result.n = len(shard)
    return result


def reduce(parts: list[Batch]) -> np.ndarray:
    total = Batch.stack(parts)
    total.weight = total["n"] / total["n"].sum()
    return np.asarray((total["grad"] * total.weight[:, None]).sum(0))
    #! misspelt-read: return np.asarray((total["grad"] * total.weights[:, None]).sum(0))


def to_samples(batch: RolloutBatchProtocol) -> SampleBatch:
    assert isinstance(batch.info, Batch)
    return SampleBatch(obs=batch.obs, actions=batch.act, rewards=batch.rew, eps_id=batch.info["worker"], t=batch.info["t"])


def main() -> None:
    weights = np.zeros(3)
    for step in range(3):
        rollouts = gather([Job(worker, 10 * step + worker, 8) for worker in range(3)], weights)
        everything = Batch.cat([with_advantages(with_returns(one)) for one in rollouts])
        #! wrong-stage: everything = Batch.cat([with_advantages(one) for one in rollouts])
        with ThreadPoolExecutor(max_workers=2) as pool:
            parts = list(pool.map(lambda shard: gradient(shard, weights), everything.split(6, shuffle=False)))
        weights = weights + 0.1 * reduce(parts)
        samples = to_samples(everything)
        episodes = [float(episode["rewards"].sum()) for episode in samples.split_by_episode()]
        mean = float(everything.rew.mean())
        #! old-name: mean = float(everything.reward.mean())
        print(step, f"{mean:.4f}", np.round(episodes, 3).tolist(), np.round(weights, 3).tolist())


if __name__ == "__main__":
    main()
