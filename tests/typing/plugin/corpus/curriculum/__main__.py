"""Run with and without keeping predictions."""

import numpy as np

from curriculum.learner import Learner
from curriculum.loop import run
from curriculum.tasks import TaskSource


def main() -> None:
    for keep in (False, True):
        source, learner = TaskSource(0, 3), Learner(4, keep_pred=keep)
        table = run(source, learner, 6)
        print(table["level"].tolist(), np.round(table["after"], 4).tolist(), table["solved"].sum(), f"{learner.replay():.4f}")
        last = learner.fit(source.draw(1, 8))
        if keep:
            print(np.round(last["pred"][:2], 3).tolist())
    print(source.levels.visits.tolist())
    #! misspelt-read: print(source.levels.visit.tolist())


if __name__ == "__main__":
    main()
