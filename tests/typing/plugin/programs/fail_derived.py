"""Classes derived from Batch are to the plugin what they are without it: closed, unless they say otherwise."""

from typing import Any

from numpy.typing import NDArray

from typedbatch import Batch, ObsBatch, SampleBatch


class Goal(Batch):
    goal: NDArray[Any]


class Open(Batch):
    def __getattr__(self, name: str) -> int:
        return len(name)


class GoalObs(ObsBatch):
    goal: NDArray[Any]


def wrong(goal: Goal, open_: Open, obs: GoalObs, steps: SampleBatch) -> None:
    goal.gaol  # E: misspelt-read: gaol
    goal.gaol = goal.goal  # E: misspelt-write: gaol
    obs.gaol  # E: misspelt-read: gaol
    obs.gaol = obs.goal  # E: misspelt-write: gaol
    steps.obs  # E: read-by-attribute: obs
    steps.obs = steps["obs"]  # E: write-by-attribute: obs
    open_.anything + 1
    open_.anything + "text"  # E: as-it-says
