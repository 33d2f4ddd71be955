"""CartPole from environment to gradient in six steps, each of which says which fields it reads and which it makes.

    envs, policy --collect--> RolloutBatch --compute_returns--> BatchWithReturns
        --compute_advantages--> BatchWithAdvantages --add_logp_old--> LogpOldBatch --improve--> policy

Protocols stand where a batch comes in, records where one is made. Checkers follow them from line to line, and
``@checked`` looks once more at run time. The algorithm is PPO with two linear models, in numpy alone.

Run it: ``python docs/examples/pipeline.py``
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from typedbatch import (
    ActBatch,
    Batch,
    BatchWithAdvantages,
    BatchWithAdvantagesProtocol,
    BatchWithReturns,
    BatchWithReturnsProtocol,
    LogpOldBatch,
    LogpOldProtocol,
    ObsBatch,
    ObsBatchProtocol,
    RolloutBatch,
    RolloutBatchProtocol,
    cat,
    checked,
    extend,
    stack,
)

Array: TypeAlias = NDArray[Any]
Envs: TypeAlias = VectorEnv[Array, Array, Array]
Progress: TypeAlias = Callable[[int], object]
"""Told after every step how many transitions it brought."""

N_ENVS, N_STEPS = 8, 500
GAMMA, LAMBDA = 0.99, 0.95
CLIP, LEARNING_RATE, EPOCHS, MINIBATCH = 0.2, 1.0, 10, 500


@dataclass(frozen=True)
class Policy:
    """Pushes the cart to the right with probability ``sigmoid(obs @ weights)``."""

    weights: Array

    def p_right(self, obs: Array) -> Array:
        return np.asarray(1 / (1 + np.exp(-obs @ self.weights)))

    def logp(self, obs: Array, act: Array) -> Array:
        p = self.p_right(obs)
        return np.log(np.where(act == 1, p, 1 - p))


@dataclass(frozen=True)
class Value:
    """Expected return, linear in the observation and its squares."""

    weights: Array

    def __call__(self, obs: Array) -> Array:
        return np.asarray(_features(obs) @ self.weights)


def _ignore(_transitions: int) -> None: ...


def _features(obs: Array) -> Array:
    return np.concatenate([np.ones_like(obs[:, :1]), obs, obs**2], axis=1)


# ---- from environment to rollout --------------------------------------------------------------------------------


def make_envs() -> Envs:
    return gym.make_vec(
        "CartPole-v1", N_ENVS, vectorization_mode="sync", vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP}
    )


@checked
def choose(policy: Policy, batch: ObsBatchProtocol, rng: np.random.Generator) -> ActBatch:
    """Draw one action for each observation."""
    return ActBatch(act=(rng.random(len(batch)) < policy.p_right(batch.obs)).astype(np.int64))


def step(envs: Envs, policy: Policy, obs: Array, rng: np.random.Generator) -> tuple[RolloutBatch, Array]:
    """One transition per environment, and the observations to go on from."""
    seen = ObsBatch(obs=obs, info=Batch())
    act = choose(policy, seen, rng).act
    now, rew, terminated, truncated, info = envs.step(act)
    # An episode that ends is reset within the same step (SAME_STEP), so `now` may show the start of the next episode.
    # What this transition led to is then in `final_obs`. The default mode, NEXT_STEP, spends a step on the reset: it
    # ignores the action and pays no reward, and would have to be kept out of the rollout.
    obs_next = now.copy()
    if "final_obs" in info:
        ended = info["_final_obs"]
        obs_next[ended] = np.stack(list(info["final_obs"][ended]))
    transition = RolloutBatch(
        obs=obs,
        info=Batch(),
        act=act,
        obs_next=obs_next,
        rew=rew,
        terminated=terminated,
        truncated=truncated,
    )
    return transition, now


@checked
def collect(envs: Envs, policy: Policy, rng: np.random.Generator, progress: Progress = _ignore) -> RolloutBatch:
    """``N_ENVS * N_STEPS`` transitions: all of the first environment in order of time, then the second, and so on."""
    obs, _ = envs.reset(seed=int(rng.integers(2**31)))
    steps: list[RolloutBatch] = []
    for _ in range(N_STEPS):
        transition, obs = step(envs, policy, obs, rng)
        steps.append(transition)
        progress(len(transition))
    by_step: RolloutBatch = stack(steps)
    # Whoever still stands is cut off here, so that nothing is summed up across the border to the next environment.
    by_step.truncated[-1] = ~by_step.terminated[-1]
    by_env: RolloutBatch = cat([by_step[:, env] for env in range(envs.num_envs)])
    return by_env


# ---- from rollout to minibatch ----------------------------------------------------------------------------------


@checked
def compute_returns(batch: RolloutBatchProtocol, value: Value) -> BatchWithReturns:
    """Add the discounted sum of the rewards to come."""
    # After a fall there is nothing more to earn. An episode that was cut off would have gone on, though: the value of
    # its last observation stands for the rest.
    cut_off = batch.truncated & ~batch.terminated
    rew = batch.rew + np.where(cut_off, GAMMA * value(batch.obs_next), 0.0)
    return extend(batch, BatchWithReturns, returns=_sum_backwards(rew, GAMMA * _goes_on(batch)))


@checked
def fit_value(batch: BatchWithReturnsProtocol) -> Value:
    """The least-squares fit of the returns."""
    weights, *_ = np.linalg.lstsq(_features(batch.obs), batch.returns)
    return Value(weights)


@checked
def compute_advantages(batch: BatchWithReturnsProtocol, value: Value) -> BatchWithAdvantages:
    """Add the generalised advantage estimate (arXiv:1506.02438), scaled to mean 0 and deviation 1."""
    v_s = value(batch.obs)
    v_next = np.where(batch.terminated, 0.0, value(batch.obs_next))
    adv = _sum_backwards(batch.rew + GAMMA * v_next - v_s, GAMMA * LAMBDA * _goes_on(batch))
    return extend(batch, BatchWithAdvantages, v_s=v_s, adv=(adv - adv.mean()) / adv.std())


@checked
def add_logp_old(batch: BatchWithAdvantagesProtocol, policy: Policy) -> LogpOldBatch:
    """Add the log-probability of each action under the policy that chose it."""
    return extend(batch, LogpOldBatch, logp_old=policy.logp(batch.obs, batch.act))


def _goes_on(batch: RolloutBatchProtocol) -> Array:
    return np.asarray(~(batch.terminated | batch.truncated), dtype=float)


def _sum_backwards(terms: Array, discounts: Array) -> Array:
    """``sums[t] = terms[t] + discounts[t] * sums[t + 1]``."""
    sums = np.zeros(len(terms) + 1)
    for t in reversed(range(len(terms))):
        sums[t] = terms[t] + discounts[t] * sums[t + 1]
    return sums[:-1]


# ---- from minibatch to policy -----------------------------------------------------------------------------------


@checked
def policy_gradient(policy: Policy, batch: LogpOldProtocol) -> Array:
    """Gradient of PPO's clipped objective (arXiv:1707.06347)."""
    ratio = np.exp(policy.logp(batch.obs, batch.act) - batch.logp_old)
    # Where the clip holds the ratio back, the objective is flat.
    moves = np.where(batch.adv > 0, ratio < 1 + CLIP, ratio > 1 - CLIP)
    score = (batch.act - policy.p_right(batch.obs))[:, None] * batch.obs
    return np.asarray(np.mean((moves * ratio * batch.adv)[:, None] * score, axis=0))


@checked
def improve(policy: Policy, batch: LogpOldProtocol, rng: np.random.Generator) -> Policy:
    """A few passes over the batch, in minibatches, which have the fields of the batch."""
    for _ in range(EPOCHS):
        for minibatch in batch.split(MINIBATCH, rng=rng):
            policy = Policy(policy.weights + LEARNING_RATE * policy_gradient(policy, minibatch))
    return policy


# ---- all of it ---------------------------------------------------------------------------------------------------


class Iteration(NamedTuple):
    """What one round of collecting and learning leaves behind."""

    rollout: RolloutBatch
    with_returns: BatchWithReturns
    with_advantages: BatchWithAdvantages
    ready: LogpOldBatch
    policy: Policy
    value: Value

    @property
    def steps_per_fall(self) -> float:
        """How long the pole stays up, on average."""
        return len(self.rollout) / max(1, int(self.rollout.terminated.sum()))


def start() -> tuple[Policy, Value]:
    return Policy(np.zeros(4)), Value(np.zeros(9))


def iterate(
    envs: Envs, policy: Policy, value: Value, rng: np.random.Generator, progress: Progress = _ignore
) -> Iteration:
    rollout = collect(envs, policy, rng, progress)
    with_returns = compute_returns(rollout, value)
    value = fit_value(with_returns)
    with_advantages = compute_advantages(with_returns, value)
    ready = add_logp_old(with_advantages, policy)
    return Iteration(rollout, with_returns, with_advantages, ready, improve(policy, ready, rng), value)


def main() -> None:
    envs, rng = make_envs(), np.random.default_rng(0)
    policy, value = start()
    for round_ in range(1, 9):
        done = iterate(envs, policy, value, rng)
        policy, value = done.policy, done.value
        print(f"round {round_}: {len(done.rollout)} transitions, the pole falls every {done.steps_per_fall:.0f} steps")
    envs.close()


if __name__ == "__main__":
    main()
