"""Right pipelines: collectors, epochs and policies, with the types that they hand on."""

from typing import Any, assert_type

import numpy as np
import torch
from gymnasium import Env
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import (
    ActBatch,
    ActStateBatch,
    Batch,
    BatchRecord,
    BatchWithAdvantages,
    BatchWithReturns,
    LogpOldBatch,
    ObsBatch,
    ObsBatchProtocol,
    PrioBatch,
    RolloutBatch,
    convert,
    extend,
)
from typedbatch.buffers import PrioritizedVectorReplayBuffer, ReplayBuffer, VectorReplayBuffer
from typedbatch.training import (
    BufferSource,
    Collector,
    CollectStats,
    JointRollout,
    Losses,
    ObsStateBatch,
    ParallelCollector,
    ParallelEnv,
    Source,
    by_env,
    compute_action,
    evaluate,
    off_policy,
    on_policy,
    random_policy,
)

Envs = VectorEnv[Any, Any, Any]
Slots = NDArray[np.intp]
Array = NDArray[Any]


class Choice(ActBatch[Tensor]):
    logp: Tensor
    value: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor
    value: Tensor


def record(rollout: RolloutBatch, out: Choice) -> Rollout:
    return extend(convert(rollout, RolloutBatch[Tensor]), Rollout, logp=out.logp, value=out.value)


class Actor(nn.Module):
    def sample(self, batch: ObsBatch) -> Choice:
        obs = torch.as_tensor(batch.obs)
        return Choice(act=obs, logp=obs, value=obs)

    def greedy(self, batch: ObsBatch) -> ActBatch:
        return ActBatch(act=batch.obs)

    def process(self, batch: Rollout) -> LogpOldBatch[Tensor]:
        with_returns = extend(batch, BatchWithReturns[Tensor], returns=batch.rew)
        with_adv = extend(with_returns, BatchWithAdvantages[Tensor], adv=batch.rew, v_s=batch.value)
        return extend(with_adv, LogpOldBatch[Tensor], logp_old=batch.logp)

    def learn(self, batch: LogpOldBatch[Tensor]) -> Losses:
        return {"loss": batch.adv.mean().item()}

    def update(self, batch: Rollout) -> Losses:
        return self.learn(self.process(batch))


def on(envs: Envs, tests: Envs, actor: Actor) -> None:
    collector = Collector(envs, actor.sample, record)
    assert_type(collector.rollout(128), Rollout)
    for epoch in on_policy(collector, actor.update, n_step=256, epoch_steps=5000, epochs=10):
        assert_type(epoch.collected, CollectStats)
        print(epoch.losses["loss"], epoch.metrics())
        if evaluate(tests, actor.greedy, 10).mean > 475:
            break


def single(env: Env[Any, Any], actor: Actor) -> None:
    Collector(env, actor.greedy).rollout(8)
    evaluate(lambda: env, actor.greedy, 2)


def plain(envs: Envs, actor: Actor) -> None:
    collector = Collector(envs, actor.greedy)
    assert_type(collector.rollout(128), RolloutBatch)
    source: Source[RolloutBatch] = collector
    filler: BufferSource[RolloutBatch] = collector
    print(filler.num_envs)
    print(compute_action(actor.greedy, np.zeros(4)), source.last_stats.mean, evaluate(envs, random_policy(envs), 5))


class Learner:
    def __init__(self, buffer: ReplayBuffer[RolloutBatch, Any]) -> None:
        self.buffer = buffer

    def update(self, batch: RolloutBatch, slots: Slots) -> Losses:
        return {"td": float(batch.rew.mean())}


def off(envs: Envs, actor: Actor) -> None:
    buffer = VectorReplayBuffer[RolloutBatch](1000, 8)
    learner = Learner(buffer)
    collector = Collector(envs, actor.greedy)
    stats = collector.collect(buffer, 1000, random=True)
    assert_type(stats, CollectStats)
    collector.collect(buffer, n_episode=8)
    training = off_policy(
        collector, buffer, learner.update, n_step=8, updates_per_step=0.25, batch_size=64, epoch_steps=1000, epochs=5
    )
    for epoch in training:
        print(epoch.number, training.step)
    training.load_state_dict(training.state_dict())


def prioritized(envs: Envs, actor: Actor) -> None:
    buffer = PrioritizedVectorReplayBuffer[RolloutBatch, PrioBatch](1000, 8, 0.6, 0.4)

    def update(batch: PrioBatch, slots: Slots) -> Losses:
        buffer.update_weight(slots, batch.weight)
        return {}

    off_policy(
        Collector(envs, actor.greedy), buffer, update, n_step=8, updates_per_step=1, batch_size=64, epoch_steps=9, epochs=5
    )


def recurrent(envs: Envs) -> None:
    def policy(batch: ObsStateBatch) -> ActStateBatch:
        return ActStateBatch(act=batch.obs, state=Batch(h=batch.obs))

    assert_type(Collector(envs, policy, state=Batch(h=np.zeros(8))).rollout(10), RolloutBatch)
    act, state = compute_action(policy, np.zeros(4), state=np.zeros(8))
    print(act, state)


class Steps(RolloutBatch):
    env_id: Array
    state_in: Array


class Recurrent(RolloutBatch):
    state_in: Array
    state_out: Any


def with_columns(envs: Envs, actor: Actor) -> None:
    def policy(batch: ObsStateBatch) -> ActStateBatch:
        return ActStateBatch(act=batch.obs, state=batch.obs)

    def keep(rollout: Steps, out: ActStateBatch) -> Recurrent:
        return extend(rollout, Recurrent, state_out=out.state)

    assert_type(Collector(envs, actor.greedy, rollout=Steps).rollout(10), Steps)
    assert_type(Collector(envs, policy, state=np.zeros(8), rollout=Steps).rollout(10), Steps)
    assert_type(Collector(envs, policy, keep, state=np.zeros(8), rollout=Steps).rollout(10), Recurrent)
    rollout = Collector(envs, actor.greedy, rollout=Steps).rollout(10)
    assert_type(by_env(rollout).batch, Steps)
    assert_type(by_env(rollout).flat(torch.zeros(2, 5)), Tensor)


def several(env: ParallelEnv, actor: Actor) -> None:
    stats = ParallelCollector(env, {"cat": actor.greedy}).collect({"cat": ReplayBuffer[RolloutBatch](9)}, 5)
    assert_type(stats["cat"], CollectStats)


def jointly(env: ParallelEnv, actor: Actor) -> None:
    def policy(batch: ObsStateBatch) -> ActStateBatch:
        return ActStateBatch(act=batch.obs, state=batch.obs)

    def keep(rollout: Steps, out: ActStateBatch) -> Recurrent:
        return extend(rollout, Recurrent, state_out=out.state)

    collector = ParallelCollector(env, {"cat": actor.greedy, "dog": actor.greedy})
    assert_type(collector.rollout(10), JointRollout[Any, Any])
    assert_type(collector.rollout(10).agent_mask, NDArray[np.bool_])
    assert_type(collector.collect(ReplayBuffer[JointRollout](9), n_episode=2), dict[Any, CollectStats])
    assert_type(collector.evaluate(2, seed=3)["dog"].mean, float)
    ParallelCollector(env, {"cat": actor.sample}, record).collect({"cat": ReplayBuffer[Rollout](9)}, 5)
    ParallelCollector(env, {"cat": actor.greedy}, rollout=Steps).collect({"cat": ReplayBuffer[Steps](9)}, 5)
    recurrent = ParallelCollector(env, {"cat": policy}, keep, state=np.zeros(8), rollout=Steps)
    recurrent.collect({"cat": ReplayBuffer[Recurrent](9)}, n_episode=1)


class Sight(BatchRecord):
    cam: Array
    pos: Array


class SightRollout(RolloutBatch[Array, Sight]):
    logp: Array


class Logp(ActBatch):
    logp: Array


def nested(envs: Envs) -> None:
    def from_record(batch: ObsBatch[Array, Sight]) -> ActBatch:
        return ActBatch(act=batch.obs.pos)

    def from_protocol(batch: ObsBatchProtocol[Array, Sight]) -> Logp:
        return Logp(act=batch.obs.pos, logp=batch.obs.pos)

    def keep(rollout: RolloutBatch[Array, Sight], out: Logp) -> SightRollout:
        return extend(rollout, SightRollout, logp=out.logp)

    assert_type(Collector(envs, from_record).rollout(10).obs, Sight)
    print(Collector(envs, from_protocol).rollout(10).obs.pos)
    print(Collector(envs, from_protocol, rollout=RolloutBatch[Array, Sight]).rollout(10).obs.pos)
    assert_type(Collector(envs, from_protocol, keep).rollout(10), SightRollout)
    collector: Collector[RolloutBatch[Array, Sight]] = Collector(envs, from_record)
    collector.collect(VectorReplayBuffer[RolloutBatch[Array, Sight]](100, 8), 100, random=True)

    def of_anything(batch: Any) -> ActBatch:
        return ActBatch(act=batch.obs)

    print(Collector(envs, of_anything).rollout(10).obs)
