"""Mistakes in pipelines: a stage too early or too late, a policy that is none, a buffer of something else."""

from typing import Any

import numpy as np
import torch
from gymnasium import Env
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray
from torch import Tensor, nn

from typedbatch import ActBatch, BatchWithReturns, LogpOldBatch, ObsBatch, PrioBatch, RolloutBatch, convert, extend
from typedbatch.buffers import ReplayBuffer, VectorReplayBuffer
from typedbatch.training import Collector, Losses, ParallelCollector, ParallelEnv, by_env, evaluate, off_policy, on_policy

Envs = VectorEnv[Any, Any, Any]
Slots = NDArray[np.intp]


class Choice(ActBatch[Tensor]):
    logp: Tensor
    value: Tensor


class Rollout(RolloutBatch[Tensor]):
    logp: Tensor
    value: Tensor


class GoalRollout(RolloutBatch):
    goal: NDArray[Any]


def record(rollout: RolloutBatch, out: Choice) -> Rollout:
    return extend(convert(rollout, RolloutBatch[Tensor]), Rollout, logp=out.logp, value=out.value)


def forgets(rollout: RolloutBatch, out: Choice) -> Rollout:
    tensors = convert(rollout, RolloutBatch[Tensor])
    return Rollout(**tensors.to_dict(recursive=False)) if len(rollout) else tensors  # E: record-forgets-fields


class Actor(nn.Module):
    def sample(self, batch: ObsBatch) -> Choice:
        obs = torch.as_tensor(batch.obs)
        return Choice(act=obs, logp=obs, value=obs)

    def greedy(self, batch: ObsBatch) -> ActBatch:
        return ActBatch(act=batch.obs)

    def reads_rewards(self, batch: RolloutBatch) -> ActBatch:
        return ActBatch(act=batch.rew)

    def peeks(self, batch: ObsBatch) -> ActBatch:
        return ActBatch(act=batch.rew)  # E: policy-reads-rewards: rew

    def of_tensors(self, batch: ObsBatch[Tensor]) -> ActBatch:
        return ActBatch(act=batch.obs.numpy())

    def no_action(self, batch: ObsBatch) -> ObsBatch:
        return batch

    def returns(self, batch: Rollout) -> BatchWithReturns[Tensor]:
        return extend(batch, BatchWithReturns[Tensor], returns=batch.rew)

    def learn(self, batch: LogpOldBatch[Tensor]) -> Losses:
        return {"loss": batch.adv.mean().item()}

    def learn_arrays(self, batch: LogpOldBatch) -> Losses:
        return {"loss": float(batch.adv.mean())}

    def skips_stages(self, batch: Rollout) -> Losses:
        return self.learn(self.returns(batch))  # E: learner-needs-advantages

    def takes_arrays(self, batch: LogpOldBatch[Tensor]) -> Losses:
        return self.learn_arrays(batch)  # E: tensors-for-arrays

    def reads_ahead(self, batch: Rollout) -> Losses:
        return {"loss": batch.adv.mean()}  # E: field-of-a-later-stage: adv

    def method_of_tensors(self, batch: RolloutBatch) -> Losses:
        return {"loss": batch.rew.cuda()}  # E: tensor-method-of-array: cuda

    def update(self, batch: Rollout) -> Losses:
        return {}

    def update_plain(self, batch: RolloutBatch) -> Losses:
        return {}

    def update_slots(self, batch: RolloutBatch, slots: Slots) -> Losses:
        return {}

    def update_prioritized(self, batch: PrioBatch, slots: Slots) -> Losses:
        return {}

    def gives_tensor(self, batch: Rollout) -> Tensor:
        return batch.rew


def policies(envs: Envs, env: Env[Any, Any], list_of_envs: list[Env[Any, Any]], actor: Actor) -> None:
    Collector(envs, actor.reads_rewards)  # E: policy-reads-rewards
    Collector(envs, actor.no_action)  # E: policy-without-act [not: pyrefly, ty]
    Collector(envs, actor.of_tensors)  # E: policy-of-tensors
    Collector(envs, actor)  # E: module-for-policy
    Collector(list_of_envs, actor.greedy)  # E: list-of-environments
    Collector(env, actor.reads_rewards)  # E: policy-reads-rewards
    Collector(envs, actor.greedy, record)  # E: policy-lacks-what-record-takes
    Collector(envs, actor.sample, record, rollout=Rollout)  # E: record-of-another-rollout
    Collector(envs, actor.reads_rewards, rollout=RolloutBatch)  # E: policy-reads-rewards
    by_env(Collector(envs, actor.greedy).rollout(10))  # E: rollout-without-env-id
    Collector(envs, "greedy")  # E: text-for-policy
    evaluate(envs, actor.reads_rewards, 10)  # E: policy-reads-rewards
    evaluate(envs, actor.greedy)  # E: no-episodes
    evaluate(envs, actor.greedy, 10).maen  # E: misspelt-statistic: maen


def several(env: ParallelEnv, actor: Actor) -> None:
    ParallelCollector(env, {"cat": actor.reads_rewards}).collect({}, 5)  # E: policy-reads-rewards
    ParallelCollector(env, {"cat": actor.greedy}).collect({"cat": ReplayBuffer[GoalRollout](9)}, 5)  # E: buffer-of-goals
    ParallelCollector(env, {"cat": actor.sample}, record).collect({"cat": ReplayBuffer[GoalRollout](9)}, 5)  # E: buffer-of-goals
    collector = ParallelCollector(env, {"cat": actor.greedy})
    collector.collect(ReplayBuffer[GoalRollout](9), 5)  # E: buffer-of-goals
    collector.rollout()  # E: no-steps
    collector.rollout(5).adv  # E: field-of-a-later-stage: adv
    collector.evaluate()  # E: no-episodes
    ParallelCollector(env, {"cat": actor.greedy}, record)  # E: policy-lacks-what-record-takes


def collecting(envs: Envs, actor: Actor) -> None:
    collector = Collector(envs, actor.sample, record)
    collector.rollout(128).adv  # E: field-of-a-later-stage: adv
    collector.rollout(128).lgop  # E: misspelt-read: lgop
    collector.rollout()  # E: no-steps
    collector.collect(VectorReplayBuffer[RolloutBatch[Tensor]](100, 8), 100).mena  # E: misspelt-statistic: mena
    Collector(envs, actor.greedy).collect(VectorReplayBuffer[GoalRollout](100, 8), 100)  # E: buffer-of-goals
    collector.collect(VectorReplayBuffer[GoalRollout](100, 8), 100)  # E: buffer-of-goals


def epochs(envs: Envs, actor: Actor) -> None:
    collector, plain = Collector(envs, actor.sample, record), Collector(envs, actor.greedy)
    on_policy(plain, actor.update, n_step=8, epoch_steps=9, epochs=1)  # E: rollout-without-logp
    on_policy(collector, actor.learn, n_step=8, epoch_steps=9, epochs=1)  # E: process-left-out
    on_policy(collector, actor.gives_tensor, n_step=8, epoch_steps=9, epochs=1)  # E: update-gives-tensor
    on_policy(collector, actor.update_slots, n_step=8, epoch_steps=9, epochs=1)  # E: update-of-the-other-sort
    on_policy(collector, actor.update, epoch_steps=9, epochs=1)  # E: no-n-step
    buffer = VectorReplayBuffer[RolloutBatch](100, 8)
    off_policy(plain, buffer, actor.update_plain, n_step=8, updates_per_step=1, batch_size=8, epoch_steps=9, epochs=1)  # E: update-of-the-other-sort
    off_policy(plain, buffer, actor.update_prioritized, n_step=8, updates_per_step=1, batch_size=8, epoch_steps=9, epochs=1)  # E: weights-of-uniform-buffer
    goals = VectorReplayBuffer[GoalRollout](100, 8)
    off_policy(plain, goals, actor.update_slots, n_step=8, updates_per_step=1, batch_size=8, epoch_steps=9, epochs=1)  # E: buffer-of-goals
    for epoch in on_policy(collector, actor.update, n_step=8, epoch_steps=9, epochs=1):
        epoch.loses  # E: misspelt-epoch: loses
