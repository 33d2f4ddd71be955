"""What functions return whose batches are written out."""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from typedbatch import ActBatchProtocol, Batch, RolloutBatchProtocol

Array = NDArray[Any]


def choose(obs: Array) -> Batch:
    logits = obs @ np.ones((4, 2))
    return Batch(actions=logits.argmax(-1), logits=logits)


def summed(batch: Batch) -> Batch:
    out = Batch(rew=batch["rew"].sum())  # E: result-lacks-a-field: rew
    out.length = len(batch)
    return out


def passed_on(batch: Batch) -> Batch:
    return batch


@lru_cache
def settings() -> Batch:
    return Batch(lr=1e-3)


def takes(batch: ActBatchProtocol) -> None: ...
def learn(batch: RolloutBatchProtocol) -> None: ...


class Policy:
    def act(self, obs: Array) -> Batch:
        return Batch(act=obs.argmax(-1), value=obs.mean(-1))


def use(policy: Policy, obs: Array) -> None:
    chosen = choose(obs)
    print(chosen.act)  # E: name-of-another-field: act
    takes(chosen)
    print(summed(chosen).lenght)  # E: misspelt-of-result: lenght
    print(summed(chosen).returns)  # E: missing-of-result: returns
    print(policy.act(obs).vaule)  # E: misspelt-of-method: vaule
    print(passed_on(chosen).adv)  # E: missing-of-what-is-passed-on: adv
    print(settings().lr)
